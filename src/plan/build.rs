//! Matrix → steps.

mod commands;
mod composed;
mod facts;
mod generate;
mod own;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalogue::{Artefact, From, Wanted, onnx, qnn};
use crate::matrix::{Case, Fallback, Instead, Matrix};
use crate::plan::build::facts::facts;
use crate::plan::build::own::{Made, Purpose};
use crate::plan::clock::Clock;
use crate::plan::graph::Graph;
use crate::plan::sizes::texts;
use crate::plan::{CycleError, ModelFacts, Plan, PlannedCase, PlannedFallback};
use crate::spec::{Measure, Model, Precision, Spec, Target, Tolerance};
use crate::step::{
    self, Inputs, JudgeParams, Params, RunParams, Source, Stage, Step, StepId, StepKind,
    TestMeasure, test_context,
};
use crate::toolchain::Toolchain;

/// Makes the plan. Fails only where the user's own `commands:` refer to each other in a circle or to nothing.
pub fn build(spec: &Spec, matrix: &Matrix) -> Result<Plan, BuildError> {
    build_with(spec, matrix, Fallback::default(), &Clock::default())
}

/// [`build`] with fallbacks for the cases that `fallback` allows them, and times of the runs to which `clock` grants
/// them.
pub fn build_with(
    spec: &Spec,
    matrix: &Matrix,
    fallback: Fallback,
    clock: &Clock,
) -> Result<Plan, BuildError> {
    let mut builder = Builder {
        spec,
        clock,
        steps: Vec::new(),
        index: HashMap::new(),
        made: HashMap::new(),
    };
    let mut planned: Vec<_> = matrix.cases.iter().map(|case| builder.case(case)).collect();
    // After all cases, so that a spec without fallbacks numbers its steps as it always did.
    for planned in &mut planned {
        let spare = planned.case.fallbacks(spec, fallback).into_iter();
        let spare = spare.map(|Instead { case, batch }| {
            let PlannedCase {
                case,
                test,
                run,
                judge,
                ..
            } = builder.case(&case);
            PlannedFallback {
                case,
                batch,
                test,
                run,
                judge,
            }
        });
        planned.fallbacks = spare.collect();
    }
    for planned in &mut planned {
        planned.rounds = builder.rounds(&planned.case, planned.run);
    }
    builder.commands()?;
    let model_facts = spec
        .models
        .values()
        .map(|model| (model.name.clone(), facts(spec, model)));
    finish(builder, planned, matrix, model_facts.collect())
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Cycle(#[from] CycleError),
    #[error(
        "{loc}: command `{command}` reads step `{step}`, which is not in this plan\nhint: {hint}"
    )]
    NoSuchStep {
        loc: String,
        command: String,
        step: String,
        hint: String,
    },
}

struct Builder<'a> {
    spec: &'a Spec,
    clock: &'a Clock,
    steps: Vec<Step>,
    index: HashMap<String, StepId>,
    /// What was made of each model at each size: every case needs its own, and there are many of each.
    made: HashMap<String, Made>,
}

impl Builder<'_> {
    /// Adds a step, or finds the one of that name: equal names are equal steps.
    fn add(
        &mut self,
        name: String,
        stage: Stage,
        kind: &'static dyn StepKind,
        params: impl Into<Params>,
        inputs: Inputs,
        timeout_seconds: u64,
    ) -> StepId {
        if let Some(id) = self.find(&name) {
            return id;
        }
        self.add_new(Step::new(
            name,
            stage,
            kind,
            params,
            inputs,
            timeout_seconds,
        ))
    }

    /// Adds a step whose name is known to be new.
    fn add_new(&mut self, step: Step) -> StepId {
        let id = StepId(self.steps.len() as u32);
        self.index.insert(step.name.clone(), id);
        self.steps.push(step);
        id
    }

    fn find(&self, name: &str) -> Option<StepId> {
        self.index.get(name).copied()
    }

    /// A case whose rounds, fallbacks and chain are yet to be filled in.
    fn case(&mut self, case: &Case) -> PlannedCase {
        let model = &self.spec.models[&case.model];
        let target = &self.spec.targets[&case.target];
        let first = self.steps.len();
        let made = self.made(case);
        let export = export(model);
        let wanted = wanted(self.spec, model, target, case, &export, &made);
        let label = self.label(target.artefact, wanted, case);
        let test = self.test(case, &label, Purpose::Person);
        let artefact = match self.assembled(target, &label, case, &made) {
            Some(assembled) => assembled,
            None if model.components().next().is_some() => made.model,
            None => self.artefact(target.artefact, wanted, case, &made),
        };
        let mut params = self.run_params(case);
        params.measure = self.clock.measure(&case.id(), params.measure);
        let reference = if target.artefact.holds_reference {
            artefact
        } else {
            made.model
        };
        let mut inputs = vec![
            ("artefact".into(), Source::Step(artefact)),
            ("model".into(), Source::Step(reference)),
        ];
        if params.test.is_some() {
            let harness = self.test(case, &label, Purpose::Run);
            inputs.push(("test".into(), Source::Step(harness)));
        }
        let Measure {
            timeout_seconds: timeout,
            remeasure_seconds,
            ..
        } = measure(self.spec, target);
        let name = format!("run:{}:{}", case.model, case.name);
        let run = self.add(
            name,
            Stage::Run,
            &step::RUN,
            Params::Run(params.into()),
            inputs,
            timeout,
        );
        self.steps[run.0 as usize].retries = target.retries;
        self.steps[run.0 as usize].toolchain = target.toolchain.clone();
        self.steps[run.0 as usize].remeasure_seconds = remeasure_seconds;
        for step in self.steps[first..]
            .iter_mut()
            .filter(|step| step.kind.memory().is_some())
        {
            step.memory = model.memory;
        }
        let inputs = vec![
            ("result".into(), Source::Step(run)),
            ("model".into(), Source::Step(reference)),
        ];
        let tokens = self.spec.tokens(model, &case.pipeline).to_vec();
        let params = JudgeParams {
            tolerance: self.tolerance(case),
            precision: case.precision,
            tokens,
        };
        let name = format!("judge:{}:{}", case.model, case.name);
        let judge = self.add(
            name,
            Stage::Judge,
            &step::JUDGE,
            Params::Judge(params.into()),
            inputs,
            600,
        );
        let case = case.clone();
        let rounds = vec![];
        let chain = vec![];
        let fallbacks = vec![];
        PlannedCase {
            case,
            test,
            run,
            judge,
            rounds,
            chain,
            fallbacks,
        }
    }

    /// [`Self::model`], once for each model and its sizes.
    fn made(&mut self, case: &Case) -> Made {
        let instance = case.instance();
        if let Some(made) = self.made.get(&instance) {
            return *made;
        }
        let made = self.model(case);
        self.made.insert(instance, made);
        made
    }

    /// The step that makes an artefact, and those that make what it is made of.
    fn artefact(
        &mut self,
        kind: &'static Artefact,
        wanted: Wanted<'_>,
        case: &Case,
        made: &Made,
    ) -> StepId {
        let Some((conversion, params)) = (kind.made_by)(&wanted) else {
            return made.model;
        };
        let inputs = conversion.inputs.iter().filter_map(|(label, from)| {
            let from = match from {
                From::Model => made.model,
                From::Onnx => self.artefact(
                    &onnx::ARTEFACT,
                    Wanted {
                        precision: Precision::Fp32,
                        ..wanted
                    },
                    case,
                    made,
                ),
                From::Qdq => self.artefact(&qnn::QDQ, wanted, case, made),
                From::Calibration => self.calibration(case)?,
            };
            Some(((*label).into(), Source::Step(from)))
        });
        let inputs = inputs.collect();
        let label = self.label(kind, wanted, case);
        let made = self.add(
            format!("convert:{}:{label}", case.instance()),
            Stage::Convert,
            conversion,
            params,
            inputs,
            self.spec.models[&case.model].timeout_seconds,
        );
        self.steps[made.0 as usize].toolchain = self.converter(kind, wanted, case);
        made
    }

    /// The name of an artefact: one that a toolchain makes by itself has the toolchain's name too.
    fn label(&self, kind: &Artefact, wanted: Wanted<'_>, case: &Case) -> String {
        let label = (kind.label)(&wanted);
        match self.converter(kind, wanted, case) {
            Some(toolchain) => format!("{label}@{}", toolchain.name()),
            None => label,
        }
    }

    /// The case's toolchain, where it makes the artefact by itself; all other artefacts are shared with the column of orch's own
    /// locks.
    fn converter(
        &self,
        kind: &Artefact,
        wanted: Wanted<'_>,
        case: &Case,
    ) -> Option<Arc<Toolchain>> {
        let toolchain = self.spec.targets[&case.target].toolchain.clone()?;
        (toolchain.converts() && is_made_by(&toolchain, kind, wanted)).then_some(toolchain)
    }

    fn test(&mut self, case: &Case, label: &str, purpose: Purpose) -> StepId {
        let params = self.run_params(case);
        let mut context = test_context(self.spec, case, &params, label);
        let mut name = format!("generate:{}:{}", case.model, case.name);
        match purpose {
            Purpose::Person => {
                context.tolerance = Some(self.tolerance(case));
                context.tokens = self
                    .spec
                    .tokens(&self.spec.models[&case.model], &case.pipeline)
                    .to_vec();
            }
            Purpose::Run => name.push_str(":run"),
        }
        self.add(
            name,
            Stage::Generate,
            &step::RENDER,
            Params::Test(context.into()),
            vec![],
            60,
        )
    }

    fn tolerance(&self, case: &Case) -> Tolerance {
        let model = &self.spec.models[&case.model];
        let target = &self.spec.targets[&case.target];
        let precision = case.precision;
        let own = model
            .tolerances
            .get(&precision)
            .or(target.tolerances.get(&precision));
        *own.or(self.spec.tolerances.get(&precision))
            .expect("BUG: checked: every precision has a tolerance")
    }

    fn run_params(&self, case: &Case) -> RunParams {
        let model = &self.spec.models[&case.model];
        let target = &self.spec.targets[&case.target];
        let precision: Precision = case.precision;
        // Not the timeout: how long a run may take does not change what it finds. Nor how many rounds there are, and whether
        // what is not quiet is measured again.
        let Measure {
            timing,
            warmup,
            samples,
            max_seconds,
            rounds: _,
            remeasure_seconds: _,
            timeout_seconds: _,
        } = measure(self.spec, target);
        let is_timed = self.clock.times(timing, model, target);
        let times = TestMeasure::Times {
            warmup,
            samples,
            max_seconds,
        };
        RunParams {
            runtime: target.runtime,
            backend: target.backend,
            device: target.device.clone(),
            precision,
            options: target.options.clone().into_iter().collect(),
            properties: target.properties.clone(),
            measure: if is_timed { times } else { TestMeasure::NONE },
            computes: (target.runtime.computes)(precision, target.half.is_some())
                .map(str::to_owned),
            round: None,
            test: target
                .runtime
                .runs_the_test
                .then(|| step::test_file_name(&case.model, &case.name)),
        }
    }
}

/// Whether a toolchain has the environment of a conversion to an artefact, or of one before it.
fn is_made_by(toolchain: &Toolchain, kind: &Artefact, wanted: Wanted<'_>) -> bool {
    let Some((conversion, params)) = (kind.made_by)(&wanted) else {
        return false;
    };
    let fp32 = Wanted {
        precision: Precision::Fp32,
        ..wanted
    };
    let mut inputs = conversion.inputs.iter();
    toolchain.covers((conversion.env)(&params))
        || inputs.any(|(_, from)| match from {
            From::Onnx => is_made_by(toolchain, &onnx::ARTEFACT, fp32),
            From::Qdq => is_made_by(toolchain, &qnn::QDQ, wanted),
            From::Model | From::Calibration => false,
        })
}

/// How a model is exported to ONNX.
fn export(model: &Model) -> Value {
    let mut export = json!({"routes": model.export.routes, "opset": model.export.opset});
    if !model.export.stand_ins {
        export["stand_ins"] = json!(false);
    }
    if !model.export.rewrites {
        export["rewrites"] = json!(false);
    }
    export
}

fn wanted<'w>(
    spec: &'w Spec,
    model: &'w Model,
    target: &'w Target,
    case: &Case,
    export: &'w Value,
    made: &Made,
) -> Wanted<'w> {
    Wanted {
        target: &target.name,
        precision: case.precision,
        options: &target.options,
        int8_range: target.int8_range,
        export,
        tokens: spec.tokens(model, &case.pipeline),
        texts: texts(model),
        ready: made.ready,
    }
}

fn measure(spec: &Spec, target: &Target) -> Measure {
    target.measure.unwrap_or(spec.measure)
}

/// Puts the steps into an order in which dependencies come first, and fills in what can be derived.
fn finish(
    builder: Builder<'_>,
    planned: Vec<PlannedCase>,
    matrix: &Matrix,
    model_facts: BTreeMap<String, ModelFacts>,
) -> Result<Plan, BuildError> {
    let Builder {
        mut steps, index, ..
    } = builder;
    let graph = Graph::of(&steps);
    let mut renumbered: Vec<StepId> = Vec::new();
    let excluded = matrix.excluded.clone();
    let mut plan = match graph.order(&steps)? {
        None => Plan {
            steps,
            cases: vec![],
            excluded,
            model_facts,
            standby: BTreeSet::new(),
            index,
            graph,
            resting: HashMap::new(),
        },
        Some(order) => {
            drop((index, graph));
            renumbered.resize(steps.len(), StepId(0));
            for (new, old) in order.iter().enumerate() {
                renumbered[*old as usize] = StepId(new as u32);
            }
            steps = in_order(steps, order, &renumbered);
            Plan::new(steps, vec![], excluded, model_facts)
        }
    };
    let new_id = |old: StepId| Some(renumbered.get(old.0 as usize).copied().unwrap_or(old));
    for planned in planned {
        let mut planned = planned.renumbered(&new_id);
        let chain = plan.upstream([planned.judge], |_, _| true);
        planned.chain = chain
            .into_iter()
            .chain(planned.rounds.iter().copied())
            .collect();
        plan.cases.push(planned);
    }
    plan.note_cases();
    Ok(plan)
}

fn in_order(steps: Vec<Step>, order: Vec<u32>, renumbered: &[StepId]) -> Vec<Step> {
    let mut slots: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let take = |old: u32| {
        let mut step = slots[old as usize]
            .take()
            .expect("BUG: an order names each step once");
        for (_, source) in &mut step.inputs {
            if let Source::Step(id) = source {
                *id = renumbered[id.0 as usize];
            }
        }
        step
    };
    order.into_iter().map(take).collect()
}
