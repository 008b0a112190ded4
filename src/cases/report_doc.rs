//! The results of all steps → the document that every page and `--json` is made of.

use std::collections::BTreeSet;

use crate::cases::case;
use crate::exec::{Context, How, StepResult};
use crate::matrix::ExcludedCase;
use crate::report::{Excluded, ReportDoc, Summary, stats};

/// The version of the document's shape.
const DOC_VERSION: u32 = 1;

/// `seconds`: how long the run took.
pub fn report_doc(context: &Context<'_>, results: &[StepResult], seconds: f64) -> ReportDoc {
    let plan = context.plan;
    let needed = plan
        .cases
        .iter()
        .filter(|planned| results[planned.judge.0 as usize].how != How::NotNeeded);
    let mut cases: Vec<_> = needed
        .map(|planned| case::result(context, results, planned))
        .collect();
    stats::beside_each_other(&mut cases);
    let excluded = |ExcludedCase { case, reason, .. }: &ExcludedCase| Excluded {
        case: case.id(),
        dims: case.dims.clone(),
        model: case.model.clone(),
        target: case.target.clone(),
        precision: case.precision.word().into(),
        reason: reason.clone(),
    };
    let excluded: Vec<_> = plan.excluded.iter().map(excluded).collect();
    let how = |how: How| results.iter().filter(|result| result.how == how).count() as u32;
    let failed_before = results.iter().filter(|result| result.failed_before).count() as u32;
    // Of steps that no case rests on, such as commands, no record is read where they are up to date.
    let chains = plan.cases.iter().flat_map(|planned| &planned.chain);
    let of_cases: BTreeSet<usize> = chains.map(|id| id.0 as usize).collect();
    let took = |how: How| {
        let of = of_cases
            .iter()
            .map(|at| &results[*at])
            .filter(|result| result.how == how && !result.failed_before);
        of.filter_map(|result| result.record.as_ref())
            .map(|record| record.seconds)
            .fold(0.0, std::ops::Add::add)
    };
    let summary = Summary {
        steps: results.len() as u32 - how(How::NotNeeded),
        executed: how(How::Executed),
        hits: how(How::Hit) - failed_before,
        failed_before,
        fetched: results.iter().filter(|result| result.fetched).count() as u32,
        failed_steps: case::failed_steps(context.plan, results).len() as u32,
        seconds,
        executed_seconds: took(How::Executed),
        saved_seconds: took(How::Hit),
        ..Summary::of(&cases, &excluded)
    };
    ReportDoc {
        version: DOC_VERSION,
        spec: context.options.spec.clone(),
        scope: context.options.scope.clone(),
        orch: env!("CARGO_PKG_VERSION").into(),
        machines: Vec::new(),
        run: None,
        since: Vec::new(),
        host: context.host.report.clone(),
        summary,
        cases,
        flaky_steps: case::flaky_steps(context, results),
        excluded,
        backends: context.inventory.to_vec(),
    }
}
