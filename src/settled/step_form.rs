//! A step as bytes, and back. The one place that knows both forms.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::step::{KINDS, Source, Stage, Step, StepId};

#[derive(Serialize, Deserialize)]
struct Form<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    kind: std::borrow::Cow<'a, str>,
    stage: Stage,
    params: std::borrow::Cow<'a, Value>,
    inputs: Vec<(String, Place)>,
    timeout: u64,
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
        Source::File(path) => Place::File(path.clone()),
        Source::Record(id) => Place::Record(id.0),
    };
    let form = Form {
        name: (&step.name).into(),
        kind: step.kind.name().into(),
        stage: step.stage,
        params: std::borrow::Cow::Borrowed(&step.params),
        inputs: step.inputs.iter().map(|(label, source)| (label.clone(), place(source))).collect(),
        timeout: step.timeout_seconds,
    };
    serde_json::to_vec(&form).ok()
}

pub(super) fn decode(bytes: &[u8]) -> Option<Step> {
    let form: Form<'_> = serde_json::from_slice(bytes).ok()?;
    let source = |place: Place| match place {
        Place::Step(id) => Source::Step(StepId(id)),
        Place::File(path) => Source::File(path),
        Place::Record(id) => Source::Record(StepId(id)),
    };
    Some(Step {
        kind: *KINDS.iter().find(|kind| kind.name() == form.kind)?,
        name: form.name.into_owned(),
        stage: form.stage,
        params: form.params.into_owned(),
        inputs: form.inputs.into_iter().map(|(label, place)| (label, source(place))).collect(),
        timeout_seconds: form.timeout,
    })
}

/// Environment variables whose values are in the step's key.
pub(super) fn variables(step: &Step) -> impl Iterator<Item = &str> {
    let names = (step.kind.name() == "command").then(|| step.params["env"].as_array()).flatten();
    names.into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::COMMAND;
    use serde_json::json;

    #[test]
    fn a_step_comes_back_as_it_was() {
        let step = Step {
            name: "command:a\"b".into(),
            stage: Stage::Command,
            kind: &COMMAND,
            params: json!({"argv": ["x", "é\n"], "outputs": ["o"], "env": ["A", "B"], "z": 0.1, "a": 1e300}),
            inputs: vec![
                ("one".into(), Source::Step(StepId(7))),
                ("two".into(), Source::File("/a/b".into())),
                ("run".into(), Source::Record(StepId(8))),
            ],
            timeout_seconds: 9,
        };
        let back = decode(&encode(&step).unwrap()).unwrap();
        assert_eq!((&back.name, back.stage, back.kind.name()), (&step.name, step.stage, step.kind.name()));
        assert_eq!((&back.params, &back.inputs, back.timeout_seconds), (&step.params, &step.inputs, 9));
        assert_eq!(back.params.to_string(), step.params.to_string(), "the order of keys too");
        assert_eq!(variables(&back).collect::<Vec<_>>(), ["A", "B"]);
        assert!(decode(b"{}").is_none());
    }
}
