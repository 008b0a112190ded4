//! `report`: the compatibility matrix of all cases, from their records.

use crate::base::Digest;
use crate::step::{Places, Step, StepKind, Work, code_digest};
use crate::template;

pub struct Report;
pub static REPORT: Report = Report;

impl StepKind for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn code(&self) -> Digest {
        let code = code_digest!("report/", "step/report.rs");
        let page = template::source("report.html.j2").unwrap_or_default();
        Digest::of(format!("{code} {page}").as_bytes())
    }

    fn lower(&self, _: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(Work::Report)
    }
}
