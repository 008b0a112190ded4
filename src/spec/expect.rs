//! What is known not to pass: the checked form of `matrix.expect`.

use super::Rule;
use crate::base::words::words;

/// Cases that end in a known way, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// The cases, and why; its place is that of the row.
    pub rule: Rule,
    /// Glob over whole cases, besides what the rule says.
    pub case: Option<String>,
    pub status: ExpectedStatus,
    /// None: at any.
    pub stage: Option<ExpectedStage>,
    /// `YYYY-MM-DD`
    pub since: Option<String>,
    pub fault: Fault,
    /// Whether a success fails the run.
    pub strict: bool,
}

/// What is known of the fault that makes cases fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    pub cause: Option<FaultCause>,
    /// The address of a public report.
    pub url: Option<String>,
    /// Glob over the signature that `orch blame` gives these cases.
    pub signature: Option<String>,
}

words! {
    /// The part that is at fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FaultCause {
        "model" => Model, "export" => Export, "converter" => Converter, "runtime" => Runtime, "driver" => Driver,
        "precision" => Precision,
    }
}

words! {
    /// Outcomes that can be expected. What a machine lacks is not a property of a case, so it is not among them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ExpectedStatus {
        "FAIL" => Fail, "NUMERICS" => Numerics, "OOM" => Oom, "TIMEOUT" => Timeout, "CRASH" => Crash,
        "SKIP_UNSUPPORTED" => Unsupported,
    }
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ExpectedStage { "generate" => Generate, "convert" => Convert, "run" => Run }
}
