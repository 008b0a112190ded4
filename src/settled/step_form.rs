//! A step as bytes, and back. The one place that knows both forms.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::spec::{Files, Program};
use crate::step::{KINDS, Params, Source, Stage, Step, StepId};

#[derive(Serialize, Deserialize)]
struct Form<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    kind: std::borrow::Cow<'a, str>,
    stage: Stage,
    params: Value,
    inputs: Vec<(String, Place)>,
    timeout: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<NonZeroU64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
}

#[derive(Serialize, Deserialize)]
enum Place {
    #[serde(rename = "s")]
    Step(u32),
    #[serde(rename = "f")]
    File(PathBuf),
    #[serde(rename = "r")]
    Record(u32),
}

/// None for a step that reads a path which is not UTF-8.
pub(super) fn encode(step: &Step) -> Option<Vec<u8>> {
    let place = |source: &Source| match source {
        Source::Step(id) => Place::Step(id.0),
        Source::File(path) => Place::File(path.to_path_buf()),
        Source::Record(id) => Place::Record(id.0),
    };
    let form = Form {
        name: (&step.name).into(),
        kind: step.kind.name().into(),
        stage: step.stage,
        params: params(&step.params),
        inputs: step.inputs.iter().map(|(label, source)| (label.to_string(), place(source))).collect(),
        timeout: step.timeout_seconds,
        memory: step.memory,
        retries: step.retries,
    };
    serde_json::to_vec(&form).ok()
}

pub(super) fn decode(bytes: &[u8]) -> Option<Step> {
    let form: Form<'_> = serde_json::from_slice(bytes).ok()?;
    let source = |place: Place| match place {
        Place::Step(id) => Source::Step(StepId(id)),
        Place::File(path) => Source::File(path.into()),
        Place::Record(id) => Source::Record(StepId(id)),
    };
    Some(Step {
        kind: *KINDS.iter().find(|kind| kind.name() == form.kind)?,
        name: form.name.into_owned(),
        stage: form.stage,
        params: params_of(&form.kind, form.params)?,
        inputs: form.inputs.into_iter().map(|(label, place)| (label.into(), source(place))).collect(),
        timeout_seconds: form.timeout,
        memory: form.memory,
        retries: form.retries,
    })
}

fn params(params: &Params) -> Value {
    match params {
        Params::Json(value) => (**value).clone(),
        Params::Run(run) => json!(run),
        Params::Program(program) => {
            let texts = |texts: &[Arc<str>]| texts.iter().map(|text| Value::from(&**text)).collect::<Value>();
            let Program { argv, outputs, env, transient, network, writable } = &**program;
            json!([texts(argv), texts(outputs), texts(env), transient, network, writable])
        }
        Params::Files(files) => files.0.iter().map(|(path, text)| json!([**path, text])).collect(),
    }
}

fn params_of(kind: &str, value: Value) -> Option<Params> {
    Some(match kind {
        "command" => {
            type Texts = Vec<Arc<str>>;
            type Form = (Texts, Texts, Texts, Vec<u32>, bool, Vec<(Arc<str>, Arc<Path>)>);
            let (argv, outputs, env, transient, network, writable): Form = serde_json::from_value(value).ok()?;
            let (argv, outputs, env) = (argv.into(), outputs.into(), env.into());
            let (transient, writable) = (transient.into(), writable.into());
            Params::Program(Arc::new(Program { argv, outputs, env, transient, network, writable }))
        }
        "write" => {
            let files: Vec<(Arc<str>, String)> = serde_json::from_value(value).ok()?;
            Params::Files(Arc::new(Files(files.into())))
        }
        "run" => Params::Run(serde_json::from_value(value).ok()?),
        _ => value.into(),
    })
}

/// Environment variables whose values are in the step's key.
pub(super) fn variables(step: &Step) -> impl Iterator<Item = &str> {
    let program = if let Params::Program(program) = &step.params { Some(program) } else { None };
    program.into_iter().flat_map(|program| program.env.iter().map(|name| &**name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{COMMAND, RENDER, StepKind, WRITE};

    fn step(kind: &'static dyn StepKind, params: Params) -> Step {
        Step {
            name: "command:é".into(),
            stage: Stage::Command,
            kind,
            params,
            inputs: vec![
                ("one".into(), Source::Step(StepId(7))),
                ("two".into(), Source::File(Path::new("/a/b").into())),
                ("three".into(), Source::Record(StepId(8))),
            ],
            timeout_seconds: 9,
            memory: NonZeroU64::new(1 << 33),
            retries: Some(2),
        }
    }

    #[test]
    fn a_step_comes_back_as_it_was() {
        let texts = |texts: &[&str]| texts.iter().map(|text| Arc::from(*text)).collect();
        let program = Program {
            argv: texts(&["x", "é\n"]),
            outputs: texts(&["o"]),
            env: texts(&["A", "B"]),
            transient: [75].into(),
            network: true,
            writable: [("w".into(), Path::new("/w").into())].into(),
        };
        let files = Files([("deep/é".into(), "text\n".to_owned())].into());
        for step in [
            step(&COMMAND, Params::Program(Arc::new(program))),
            step(&WRITE, Params::Files(Arc::new(files))),
            step(&RENDER, json!({"z": 0.1, "a": [1e300, null]}).into()),
        ] {
            let back = decode(&encode(&step).unwrap()).unwrap();
            assert_eq!(format!("{:?}", back.params), format!("{:?}", step.params));
            assert_eq!((&back.name, &back.inputs, back.timeout_seconds), (&step.name, &step.inputs, 9));
            assert_eq!((back.memory, back.retries), (NonZeroU64::new(1 << 33), Some(2)));
            assert_eq!((back.kind.name(), back.stage), (step.kind.name(), step.stage));
        }
        let command = step(&COMMAND, Params::Program(Arc::new(Program { env: texts(&["A", "B"]), ..empty() })));
        assert_eq!(variables(&command).collect::<Vec<_>>(), ["A", "B"]);
    }

    fn empty() -> Program {
        Program::default()
    }
}
