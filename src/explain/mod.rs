//! Why a step ran, would run or is up to date: from the line of its key that changed, through the steps that made its inputs, down to
//! the parameter or file with which it began.
//!
//! Reads what a preview found and what the store still holds; decides nothing and executes nothing.

mod chain;
mod content;
mod evidence;
pub mod bisect;
mod forecast;
mod groups;
mod held;

use serde::Serialize;

use crate::base::is_default;
use crate::exec::{Context, Preview};
use crate::key::{Change, MissReason};
use crate::step::StepId;

pub use evidence::{Evidence, FileChange};
pub use forecast::{Forecast, Total, forecasts};
pub use groups::{Group, cannot_begin, groups};
pub use held::history;

/// One link of the chain: what is the matter with a step, and what that comes from.
#[derive(Debug, Clone, Serialize)]
pub struct Cause {
    pub step: String,
    /// `param.seed changed (0 => 7)`
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Cause>,
    /// Its causes stand at an earlier mention of the step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Causes of the same kind that are not listed.
    #[serde(skip_serializing_if = "is_default")]
    pub more: usize,
}

/// The beginning of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Root {
    pub step: String,
    pub text: String,
}

/// Why a step would run now; of one that is up to date, why it was executed last.
pub fn causes(context: &Context<'_>, previews: &[Preview], id: StepId) -> Vec<Cause> {
    let chain = chain::Chain::new(context, previews);
    match &previews[id.0 as usize] {
        Preview::WouldRun { key, reason } => chain.of(id, reason, key.as_ref()),
        Preview::Hit { .. } => chain.last_run(id),
        Preview::Skipped {
            blamed: Some(blamed),
            ..
        } => chain.blamed(id, *blamed),
        Preview::Skipped { .. } | Preview::NotNeeded => Vec::new(),
    }
}

/// The ends of all chains, each once, in the order in which they are met.
pub fn roots(causes: &[Cause]) -> Vec<Root> {
    let mut found = Vec::new();
    let mut open: Vec<&Cause> = causes.iter().rev().collect();
    while let Some(cause) = open.pop() {
        open.extend(cause.because.iter().rev());
        let root = Root {
            step: cause.step.clone(),
            text: cause.text.clone(),
        };
        if cause.because.is_empty() && !cause.repeated && !found.contains(&root) {
            found.push(root);
        }
    }
    found
}

/// The step with which the waiting of another begins: the first above it, in the plan's order, that does not merely wait
/// itself. By step; a step that waits for none is its own.
pub fn origins(context: &Context<'_>, previews: &[Preview]) -> Vec<StepId> {
    let mut origins: Vec<StepId> = Vec::with_capacity(previews.len());
    for (id, preview) in context.plan.ids().zip(previews) {
        let above = match preview {
            Preview::WouldRun {
                reason: MissReason::After { step },
                ..
            } => context.plan.find(step),
            _ => None,
        };
        origins.push(above.map_or(id, |above| origins[above.0 as usize]));
    }
    origins
}
