//! How the cases of a row, a column or a field ended.

use serde::Serialize;

use crate::record::Outcome;
use crate::report::view::Cell;

#[derive(Clone, Copy, Default, Serialize)]
pub(in crate::report) struct Tally {
    pub(in crate::report) right: usize,
    /// Of those that ran, or that a vendor's tool refused.
    pub(in crate::report) asked: usize,
    pub(in crate::report) failed: usize,
    /// Which colour it has, as [`kind`](crate::report::format::kind).
    pub(in crate::report) kind: &'static str,
}

impl Tally {
    pub(super) fn of<'c>(cells: impl IntoIterator<Item = &'c Cell<'c>>) -> Self {
        let mut tally = Self::default();
        for (_, case) in cells.into_iter().filter_map(Cell::case) {
            let is_out = matches!(case.status, Outcome::SkipUnavailable | Outcome::Incomplete | Outcome::Mock);
            tally.asked += usize::from(!is_out);
            tally.right += usize::from(case.status.is_made() || case.status == Outcome::Xpass);
            tally.failed += usize::from(case.is_failure());
        }
        tally.kind = match tally {
            Self { asked: 0, .. } => "unavailable",
            Self { failed: 1.., .. } => "fail",
            Self { right, asked, .. } if right == asked => "pass",
            _ => "indecisive",
        };
        tally
    }
}
