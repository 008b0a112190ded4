//! The step that renders a generated test. What the test is made of is `generate.rs`.

use crate::matrix::Case;
use crate::spec::{Model, Source, Spec, Weights, library, recipe};
use crate::step::generate::ComponentSummary;
use crate::step::generate::{self, render_test};
use crate::step::{Code, InputSummary, Places, RunParams, Step, StepKind, TestContext, Work};
use crate::toolchain::EnvName;

pub struct Render;
pub static RENDER: Render = Render;

impl StepKind for Render {
    // A test is put together from many templates, and which ones the templates say: all of them count for each. What comes
    // out as it was stops there.
    known_as!("render": Rust "step/render.rs", "step/generate", "catalogue/", "template.rs";
        PythonFile generate::JUDGE, generate::GREEDY, generate::LOOPS, generate::OWN_FILES;
        Templates "test.py.j2", "test/", "hardware/", "pipelines/", "results/"; Crate "minijinja");

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let context: TestContext = step.params.parse()?;
        Ok(Work::Files(vec![(
            context.file_name(),
            render_test(&context)?.into_bytes(),
        )]))
    }
}

/// All that the test of a case is made from.
pub fn test_context(
    spec: &Spec,
    case: &Case,
    run: &RunParams,
    artefact_variant: &str,
) -> TestContext {
    let model = &spec.models[&case.model];
    let target = &spec.targets[&case.target];
    let (class, trust_remote_code, own_weights) = match &model.source {
        Source::Transformers {
            class,
            trust_remote_code,
            weights,
            ..
        } => (
            Some(class.clone()),
            *trust_remote_code,
            *weights != Weights::Seeded,
        ),
        Source::Composed { .. } | Source::Ready { .. } => (None, false, false),
    };
    let inputs = model.inputs.iter().map(|(name, input)| InputSummary {
        name: name.clone(),
        dtype: input.dtype,
        shape: recipe::sizes(&input.shape, &case.dims)
            .expect("BUG: a case has all sizes of its model"),
    });
    TestContext {
        orch: env!("CARGO_PKG_VERSION").into(),
        model: model.name.clone(),
        class,
        family: model.family.clone(),
        task: model.task.clone(),
        pipeline: case.pipeline.clone(),
        template: spec.pipelines[&case.pipeline].template.clone(),
        target: target.name.clone(),
        backend: target.backend,
        runtime: target.runtime,
        device: target.device.clone(),
        precision: case.precision,
        computes: run.computes.clone(),
        variant: case.name.clone(),
        artefact: target.artefact,
        instance: case.instance(),
        artefact_variant: artefact_variant.to_owned(),
        inputs: inputs.collect(),
        outputs: model.outputs.clone(),
        tokens: Vec::new(),
        tolerance: None,
        measure: run.measure,
        options: target.options.clone(),
        trust_remote_code,
        generates: model.generates(),
        positions: model.positions,
        own_weights,
        experts_per_token: experts_per_token(spec, model, case),
        components: components(spec, model),
    }
}

fn components(spec: &Spec, model: &Model) -> Vec<ComponentSummary> {
    let class = |name: &str| match &spec.models[name].source {
        Source::Transformers { class, .. } => class.clone(),
        Source::Composed { .. } | Source::Ready { .. } => {
            unreachable!("BUG: checked: components have classes")
        }
    };
    let summary = |(part, name): (&str, &str)| {
        let class = class(name);
        ComponentSummary {
            part: part.to_owned(),
            library: library(&class).to_owned(),
            class,
        }
    };
    model.components().map(summary).collect()
}

/// The names that configs of transformers use.
const EXPERTS_PER_TOKEN: [&str; 4] = [
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_k",
    "moe_topk",
];

/// What a test says of experts; None in a pipeline that asks nothing of them.
fn experts_per_token(spec: &Spec, model: &Model, case: &Case) -> Option<u64> {
    let Source::Transformers { config, .. } = &model.source else {
        return None;
    };
    let asks = spec.pipelines[&case.pipeline].template == "mixture-of-experts";
    EXPERTS_PER_TOKEN
        .iter()
        .filter(|_| asks)
        .find_map(|name| config.get(*name)?.as_u64())
}

/// The environment whose Python runs the test of a target by itself.
pub fn test_env(run: &RunParams) -> EnvName {
    run.runtime
        .on(run.backend)
        .expect("BUG: checked: the runtime runs on the backend")
        .test_env
}

/// The file of a case's test. No two cases have one: `_` stands doubled within a name, so a single one parts the model
/// from the variant. A dot would part modules for whoever imports the file, and no name holds `+`.
pub fn test_file_name(model: &str, variant: &str) -> String {
    format!("test_{}_{}.py", plain(model), plain(variant))
}

/// A name within a file's name.
pub(super) fn plain(name: &str) -> String {
    name.replace('_', "__").replace('.', "+")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::test_file_name;

    /// Every name that a spec allows, of up to `longest` of these characters.
    fn names(longest: usize) -> Vec<String> {
        let mut all: Vec<String> = ["a", "4"].map(str::to_owned).into();
        let mut from = 0;
        for _ in 1..longest {
            let until = all.len();
            for at in from..until {
                all.extend(["a", "4", "_", "-", "."].map(|c| format!("{}{c}", all[at])));
            }
            from = until;
        }
        all
    }

    #[test]
    fn no_two_cases_have_one_file() {
        let mut seen: HashMap<String, (String, String)> = HashMap::new();
        let models = names(4);
        for (model, variant) in models
            .iter()
            .flat_map(|model| names(3).into_iter().map(move |v| (model, v)))
        {
            for variant in [format!("{variant}-fp32"), format!("{variant}-fp32-b4")] {
                let file = test_file_name(model, &variant);
                let stem = file
                    .strip_prefix("test_")
                    .and_then(|rest| rest.strip_suffix(".py"))
                    .unwrap();
                assert!(
                    !stem.contains('.') && !stem.contains('/'),
                    "{file} is no module"
                );
                let case = (model.clone(), variant);
                let other = seen.insert(file.clone(), case.clone());
                assert!(other.is_none(), "{file} is of {case:?} and of {other:?}");
            }
        }
        assert_eq!(test_file_name("bert", "cpu-fp32"), "test_bert_cpu-fp32.py");
        assert_eq!(test_file_name("a", "b_c-fp32"), "test_a_b__c-fp32.py");
        assert_eq!(test_file_name("a_b", "c-fp32"), "test_a__b_c-fp32.py");
    }
}
