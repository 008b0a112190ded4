//! The rows of `commands`, of which there may be millions.

use super::Command;
use crate::base::names::Index;

/// The user's own steps in their order, found by name.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    rows: Vec<Command>,
    index: Index,
}

impl Commands {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { rows: Vec::with_capacity(count), index: Index::with_capacity(count) }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Command> {
        self.rows.iter()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Command> {
        let number = self.index.find(name, |number| &self.rows[number as usize].name)?;
        Some(&self.rows[number as usize])
    }

    /// Adds a command, unless there is one of its name.
    pub(super) fn add(&mut self, command: Command) -> Result<(), Command> {
        if self.get(&command.name).is_some() {
            return Err(command);
        }
        self.index.add(&command.name, self.rows.len() as u32);
        self.rows.push(command);
        Ok(())
    }

    pub(super) fn into_rows(self) -> Vec<Command> {
        self.rows
    }
}

impl std::ops::Index<&str> for Commands {
    type Output = Command;

    fn index(&self, name: &str) -> &Command {
        self.get(name).unwrap_or_else(|| panic!("BUG: no command is called `{name}`"))
    }
}
