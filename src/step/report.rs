//! `report`: the compatibility matrix of all cases, from their records.

use crate::step::{Code, Part, Places, Step, StepKind, Work};

pub struct Report;
pub static REPORT: Report = Report;

impl StepKind for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[
            Part::Rust("report/"),
            Part::Rust("step/report.rs"),
            Part::Rust("exec/reporting.rs"),
            Part::Rust("template.rs"),
            Part::Templates("report"),
            Part::Crate("minijinja"),
        ]]);
        &CODE
    }

    fn lower(&self, _: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(Work::Report)
    }
}
