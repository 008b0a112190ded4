//! A plan of some of another plan's steps.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::step::{Step, StepId};

impl Plan {
    /// A plan without cases. `steps` stand after those that they depend on, and the report comes last.
    pub fn part(steps: Vec<Step>) -> Self {
        let report = StepId(steps.len().checked_sub(1).expect("BUG: a part of a plan has a report") as u32);
        Self::new(steps, vec![], vec![], report, BTreeMap::new())
    }
}
