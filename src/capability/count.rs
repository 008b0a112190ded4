//! The figures beside the assertions, counted from what runs found.

use std::collections::BTreeMap;

use super::{Asserted, Case, Cell, Measured, Row, Subjects, Table};

/// Figures by subject and backend.
type Figures = BTreeMap<(String, String), Vec<Measured>>;

impl Table {
    /// The cell with the figures that its runs give, and no others.
    pub(super) fn counted(mut self) -> Self {
        let families = self.figures(|row| Some(&row.family));
        let mut types = self.figures(|row| row.model_type.as_deref());
        // Of the hundreds of types, only those with an assertion are listed here; `runs` has all.
        types.retain(|(name, _), _| self.types.contains_key(name));
        set(&mut self.families, families);
        set(&mut self.types, types);
        self
    }

    /// A line for each column on each machine.
    fn figures(&self, subject: fn(&Row) -> Option<&str>) -> Figures {
        let mut found: BTreeMap<_, BTreeMap<_, Measured>> = BTreeMap::new();
        for case in self.cases() {
            let Case {
                run, name, column, ..
            } = case;
            let Some(subject) = subject(case.row) else {
                continue;
            };
            let of_cell = found
                .entry((subject.to_owned(), column.backend.clone()))
                .or_default();
            let measured = of_cell
                .entry((name, &run.host, &column.on))
                .or_insert_with(|| Measured {
                    column: name.to_owned(),
                    // Runs stand in the order of their days.
                    first: run.day.clone(),
                    host: run.host.clone(),
                    on: column.on.clone(),
                    ..Measured::default()
                });
            measured.asked += 1;
            measured.right += u32::from(case.is_right());
            measured.loosely += u32::from(case.is_right() && case.row.loosely.contains(name));
            measured.last.clone_from(&run.day);
        }
        found
            .into_iter()
            .map(|(key, lines)| (key, lines.into_values().collect()))
            .collect()
    }
}

/// Puts the figures beside what is asserted; what has neither goes.
fn set(subjects: &mut Subjects, figures: Figures) {
    for cell in subjects.values_mut().flat_map(BTreeMap::values_mut) {
        *cell = Cell {
            asserted: cell.asserted.take(),
            ..Cell::default()
        };
    }
    for ((name, backend), measured) in figures {
        let cell = subjects
            .entry(name)
            .or_default()
            .entry(backend)
            .or_default();
        cell.contradicted = cell
            .asserted
            .as_ref()
            .and_then(|asserted| contradiction(asserted, &measured));
        cell.measured = measured;
    }
    subjects
        .values_mut()
        .for_each(|cells| cells.retain(|_, cell| *cell != Cell::default()));
    subjects.retain(|_, cells| !cells.is_empty());
}

/// What runs say against an assertion: that something is right where nothing should be, or nothing where all should.
fn contradiction(asserted: &Asserted, measured: &[Measured]) -> Option<String> {
    let right: u32 = measured.iter().map(|line| line.right).sum();
    let count: u32 = measured.iter().map(|line| line.asked).sum();
    let share = format!("{right} of {count} right");
    let is_real = measured
        .iter()
        .any(|line| line.right > 0 && line.on.is_none());
    match (asserted.compatible, right) {
        (true, 0) => Some(share),
        (false, 1..) if is_real => Some(share),
        (false, 1..) => Some(format!("{share}, on no hardware")),
        _ => None,
    }
}
