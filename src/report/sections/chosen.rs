//! Why orch chose targets, if it was asked to.

use super::Section;
use crate::report::shape::{Align::Left, Cell, Shape, Table};
use crate::report::view::{View, case_name};

pub(super) const SECTION: Section =
    Section { id: "chosen", title: "Chosen targets", hint: "", is_brief: false, make: chosen };

fn chosen<'a>(view: &View<'a>) -> Shape<'a> {
    let rows = view.doc.cases.iter().enumerate().filter_map(|(at, case)| {
        let why = case.chosen.as_deref()?;
        Some(vec![Cell { case: Some(at), ..case_name(case).into() }, why.into()])
    });
    Table::alone(&[("case", Left), ("chosen as", Left)], rows.collect())
}
