//! A step as it travels, and what a worker answers. Knows nothing of how it travels.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::Digest;
use crate::exec::perform::ended::Origin;
use crate::key::KeyDoc;
use crate::record::Outcome;
use crate::runtime::RawMeasure;
use crate::spec::Program;
use crate::step::{KINDS, Params, Stage, Step};
use crate::store::Manifest;

/// The version of both forms, order and answer.
pub(super) const VERSION: u32 = 1;

/// Folders by the names that the step knows, and the trees that they must be; a user's own file or folder is not a tree.
pub(super) type Inputs = BTreeMap<String, (String, Option<Manifest>)>;

/// A step that is to be performed elsewhere.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    version: u32,
    pub(super) step: String,
    kind: String,
    /// The digest of the sources that perform it.
    code: Digest,
    params: Value,
    pub(super) inputs: Inputs,
    pub(super) timeout_seconds: u64,
    pub(super) job_memory: Option<u64>,
    pub(super) key: KeyDoc,
}

#[derive(Serialize, Deserialize)]
struct ProgramOf {
    argv: Vec<Arc<str>>,
    outputs: Vec<Arc<str>>,
    transient: Vec<u32>,
    network: bool,
    lent: Vec<Arc<str>>,
}

impl Order {
    pub(super) fn of(step: &Step, key: &KeyDoc, inputs: Inputs, job_memory: Option<u64>) -> Self {
        let params = match &step.params {
            Params::Json(value) => (**value).clone(),
            Params::Run(params) => json!(params),
            Params::Program(program) => json!(ProgramOf {
                argv: program.argv.to_vec(),
                outputs: program.outputs.to_vec(),
                transient: program.transient.to_vec(),
                network: program.network,
                lent: program.lent.to_vec(),
            }),
            Params::Test(_) | Params::Judge(_) | Params::Files(_) => {
                panic!("BUG: {} is done here", step.name)
            }
        };
        Self {
            version: VERSION,
            step: step.name.clone(),
            kind: step.kind.name().into(),
            code: step.kind.code(step).digest(),
            params,
            inputs,
            timeout_seconds: step.timeout_seconds,
            job_memory,
            key: key.clone(),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("BUG: an order serialises")
    }

    pub(super) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(bytes)
            .context("the order cannot be read: it comes from another version of orch")
    }

    /// The step that is ordered, if this orch performs it as the other one would.
    pub(super) fn into_step(self) -> anyhow::Result<Step> {
        anyhow::ensure!(
            self.version == VERSION,
            "the order is of form {}, and this orch knows {VERSION}",
            self.version
        );
        let kind = KINDS.iter().find(|kind| kind.name() == self.kind).copied();
        let kind =
            kind.with_context(|| format!("this orch has no steps of kind `{}`", self.kind))?;
        let params = match self.kind.as_str() {
            "run" => Params::Run(Box::new(serde_json::from_value(self.params)?)),
            "command" => {
                let ProgramOf {
                    argv,
                    outputs,
                    transient,
                    network,
                    lent,
                } = serde_json::from_value(self.params)?;
                let argv = argv.into();
                let outputs = outputs.into();
                let transient = transient.into();
                let lent = lent.into();
                let program = Program {
                    argv,
                    outputs,
                    transient,
                    network,
                    lent,
                    ..Program::default()
                };
                anyhow::ensure!(!program.argv.is_empty(), "the order names no program");
                Params::Program(Arc::new(program))
            }
            _ => Params::from(self.params),
        };
        let stage = if self.kind == "command" {
            Stage::Command
        } else {
            Stage::Run
        };
        let step = Step::new(self.step, stage, kind, params, vec![], self.timeout_seconds);
        anyhow::ensure!(
            step.kind.code(&step).digest() == self.code,
            "the orch of this worker performs `{}` by other code than the one that ordered it\n  hint: install the same \
             orch there, or leave `program` out of [executor], and it is sent along",
            self.kind
        );
        Ok(step)
    }
}

/// What a worker says of an execution.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub(super) version: u32,
    /// The key of the order that it answers.
    pub(super) key: Digest,
    pub outcome: Outcome,
    pub reason: Option<String>,
    pub(super) transient: bool,
    pub(super) facts: Value,
    pub(super) measure: Option<RawMeasure>,
    /// The tree that it made.
    pub(super) made: Option<Manifest>,
    pub(super) origin: Origin,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::tests::command;

    #[test]
    fn an_order_makes_the_same_step_and_one_of_other_code_is_refused() {
        let step = command(Program {
            transient: [75].into(),
            network: true,
            ..Program::default()
        });
        let order = || Order::of(&step, &KeyDoc::default(), BTreeMap::new(), None).to_bytes();
        let made = Order::parse(&order()).unwrap().into_step().unwrap();
        assert_eq!(
            (
                made.name.as_str(),
                made.timeout_seconds,
                made.transient_codes()
            ),
            ("command:x", 7, &[75][..])
        );
        let (Params::Program(one), Params::Program(other)) = (&step.params, &made.params) else {
            panic!()
        };
        assert_eq!(one, other);
        let with = |name: &str, value: serde_json::Value| {
            let mut changed: serde_json::Value = serde_json::from_slice(&order()).unwrap();
            changed[name] = value;
            Order::parse(changed.to_string().as_bytes())
                .and_then(Order::into_step)
                .unwrap_err()
                .to_string()
        };
        assert!(with("code", json!(crate::base::Digest::of(b"other"))).contains("by other code"));
        assert!(with("kind", json!("no-such-kind")).contains("no steps of kind"));
        assert!(with("version", json!(2)).contains("form 2"));
        assert!(with("unknown", json!(1)).contains("from another version of orch"));
    }
}
