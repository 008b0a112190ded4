//! Systems on which nothing confines a child.

use std::convert::Infallible;
use std::io;

use super::Grants;

#[derive(Debug)]
pub struct Confinement(Infallible);

impl Confinement {
    pub(super) fn version() -> Option<u32> {
        None
    }

    pub fn of(_: &Grants) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub fn enter(&self) -> io::Result<()> {
        match self.0 {}
    }
}
