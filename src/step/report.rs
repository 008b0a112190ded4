//! `report`: the compatibility matrix of all cases, from their records.

use crate::base::Digest;
use crate::step::{Places, Step, StepKind, Work, code_digest};

pub struct Report;
pub static REPORT: Report = Report;

impl StepKind for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn code(&self) -> Digest {
        code_digest!(
            "report.rs",
            "../report/mod.rs",
            "../report/json.rs",
            "../report/markdown.rs",
            "../report/html.rs",
            "../report/junit.rs",
            "../report/stats.rs",
            "../../templates/report.html.j2",
        )
    }

    fn lower(&self, _: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(Work::Report)
    }
}
