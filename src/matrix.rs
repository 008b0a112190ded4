//! Models on targets at precisions: every combination is a case, or excluded with a reason.
//!
//! Pure, and the same on every host: whether a device is there is found later, by exec.

mod auto;
mod expect;
mod facet;
mod fallback;
mod half;
mod partition;
mod query;
mod select;
mod shards;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Loc, glob};
use crate::spec::{
    Dim, Expect, Fill, Input, Model, Precision, ReadyFormat, Rule, Source, Spec, Target,
};

pub use auto::{ANY, AUTO, Known};
pub use expect::IdleExpectation;
pub use facet::Facet;
pub use fallback::{Batch, Fallback, Instead};
pub use half::{Computes, HalfChoice};
pub use partition::Partition;
pub use query::{Mistake, Query};
pub use select::{NothingSelected, Selection};
pub use shards::{Unit, assign};

/// The cases in the order of the spec: models, those of a higher priority first, then targets, then precisions, then
/// axes. Steps are in the order of the cases, and of those that could start at once the first does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    pub cases: Vec<Case>,
    pub excluded: Vec<ExcludedCase>,
}

/// One model on one target at one precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Key of [`Spec::models`].
    pub model: String,
    /// Key of [`Spec::pipelines`].
    pub pipeline: String,
    /// Key of [`Spec::targets`].
    pub target: String,
    pub precision: Precision,
    /// All dims of the model, with this case's values.
    pub dims: BTreeMap<String, u64>,
    /// The variant's label: `cpu-fp32`, and `cpu-fp32-b4-s128` where batch and seq are not the model's own.
    pub name: String,
    /// How the spec expects it to end, if it expects it not to pass.
    pub expect: Option<Arc<Expect>>,
    /// Why this target, where orch chose one.
    pub chosen: Option<String>,
    /// What its target's `half` came to, once that is resolved.
    pub half: Option<HalfChoice>,
}

/// A part of the product that is not tested, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedCase {
    pub case: Case,
    pub reason: String,
    /// The rule that says so; None where the source rules it out.
    pub loc: Option<Loc>,
}

/// A pipeline of the spec, and the model that stands for it. None: no model with a case has it.
#[derive(Debug, PartialEq)]
pub struct Representative<'a> {
    pub pipeline: &'a str,
    pub model: Option<&'a str>,
}

impl Case {
    fn new(
        spec: &Spec,
        model: &Model,
        target: &Target,
        precision: Precision,
        dims: BTreeMap<String, u64>,
    ) -> Self {
        let mut case = Self {
            model: model.name.clone(),
            pipeline: model.pipeline.clone(),
            target: target.name.clone(),
            precision,
            name: label(model, target, precision, &dims),
            dims,
            expect: None,
            chosen: None,
            half: None,
        };
        case.expect = expect::of(spec, model, target, &case);
        case
    }

    /// This case's target and precision for one of its model's components, at the component's own sizes.
    pub fn of_component(&self, spec: &Spec, component: &Model) -> Self {
        Self::new(
            spec,
            component,
            &spec.targets[&self.target],
            self.precision,
            component.dims.clone(),
        )
    }

    /// What was chosen for this host and why, by the names that records and reports give it.
    pub fn choices(&self) -> Vec<(&'static str, String)> {
        let half = self.half.as_ref().map(|half| ("half", half.summary()));
        let target = self.chosen.clone().map(|why| ("chosen", why));
        target.into_iter().chain(half).collect()
    }

    /// `bert:cpu-fp32`
    pub fn id(&self) -> String {
        format!("{}:{}", self.model, self.name)
    }

    /// The model at the case's sizes: `bert`, or `bert@b4-s128` where batch and seq are not the model's own. No name of a
    /// model holds `@`, so no other model is called the same.
    pub fn instance(&self) -> String {
        let plain = format!("{}-{}", self.target, self.precision.word());
        match self
            .name
            .strip_prefix(&plain)
            .and_then(|sizes| sizes.strip_prefix('-'))
        {
            Some(sizes) => format!("{}@{sizes}", self.model),
            None => self.model.clone(),
        }
    }
}

impl Matrix {
    pub fn of(spec: &Spec) -> Self {
        Self::with(spec, &[])
    }

    /// The matrix with the targets of these very names as well, of which the matrix has no case: whoever names a row
    /// wants it. Of a target that an `include` rule brings in, nobody gets more by naming it than that rule says.
    pub fn with(spec: &Spec, named: &[String]) -> Self {
        let mut matrix = Self::default();
        let mut models: Vec<&Model> = spec.models.values().collect();
        models.sort_by_key(|model| model.priority);
        for model in models {
            for target in spec.targets.values() {
                matrix.add(spec, model, target, named);
            }
        }
        matrix
    }

    fn add(&mut self, spec: &Spec, model: &Model, target: &Target, named: &[String]) {
        for (precision, in_product) in candidates(spec, model, target, named) {
            for dims in axes(spec, model) {
                let case = Case::new(spec, model, target, precision, dims);
                match excluded(spec, model, target, &case, in_product) {
                    None => self.cases.push(case),
                    Some((reason, loc)) => self.excluded.push(ExcludedCase { case, reason, loc }),
                }
            }
        }
    }

    /// One model for each pipeline, in the order of the spec: of the highest priority, and of those the first.
    pub fn representatives<'a>(&'a self, spec: &'a Spec) -> Vec<Representative<'a>> {
        let of = |pipeline: &str| {
            // Cases stand in the order of priority.
            self.cases
                .iter()
                .find(|case| case.pipeline == pipeline)
                .map(|case| case.model.as_str())
        };
        spec.pipelines
            .keys()
            .map(|pipeline| Representative {
                pipeline,
                model: of(pipeline),
            })
            .collect()
    }

    /// The spec's targets that the matrix has for none of these models.
    pub fn not_selected<'a>(&self, spec: &'a Spec, models: &[String]) -> Vec<&'a str> {
        let all = self
            .cases
            .iter()
            .chain(self.excluded.iter().map(|excluded| &excluded.case));
        let selected: BTreeSet<_> = all
            .filter(|case| models.contains(&case.model))
            .map(|case| &case.target)
            .collect();
        spec.targets
            .keys()
            .filter(|target| !selected.contains(target))
            .map(String::as_str)
            .collect()
    }
}

/// Why a case is none: because its source rules it out, or because a rule does.
fn excluded(
    spec: &Spec,
    model: &Model,
    target: &Target,
    case: &Case,
    in_product: bool,
) -> Option<(String, Option<Loc>)> {
    if let Some(reason) = impossible(model, target, case.precision, &case.dims) {
        return Some((reason, None));
    }
    let meets = |rule: &&Rule| meets(rule, model, target, case.precision);
    let rule = spec
        .matrix
        .exclude
        .iter()
        .find(meets)
        .filter(|_| in_product)?;
    let included = spec.matrix.include.iter().any(|rule| meets(&rule));
    (!included).then(|| (rule.reason.clone(), Some(rule.loc.clone())))
}

/// The precisions at which model and target are candidates, and whether the product (and not only `include`) says so.
fn candidates(
    spec: &Spec,
    model: &Model,
    target: &Target,
    named: &[String],
) -> Vec<(Precision, bool)> {
    let is_column = |name: &String| {
        let mut precisions = target.precisions.iter();
        precisions.any(|precision| target.column(*precision) == *name)
    };
    let is_named = named.contains(&target.name) || named.iter().any(is_column);
    let is_target = glob::any(&spec.matrix.targets, &target.name)
        || glob::any(&spec.matrix.targets, &target.row)
        || (is_named && !is_included(spec, target));
    let in_product = is_target && glob::any(&spec.matrix.models, &model.name);
    let mut found: Vec<(Precision, bool)> = Vec::new();
    if in_product {
        found.extend(target.precisions.iter().map(|precision| (*precision, true)));
    }
    for rule in spec
        .matrix
        .include
        .iter()
        .filter(|rule| meets_names(rule, model, target))
    {
        for precision in rule
            .precision
            .as_ref()
            .map_or(&target.precisions[..], std::slice::from_ref)
        {
            if !found.iter().any(|(known, _)| known == precision) {
                found.push((*precision, false));
            }
        }
    }
    found
}

/// Whether an `include` rule has a say in which models meet the target.
fn is_included(spec: &Spec, target: &Target) -> bool {
    let names = |rule: &Rule| {
        let of_row = |pattern: &String| glob::matches(pattern, &target.row);
        rule.target
            .as_ref()
            .is_none_or(|pattern| glob::matches(pattern, &target.name) || of_row(pattern))
    };
    spec.matrix.include.iter().any(names)
}

/// Every combination of the axes that the model has; an axis for a dim that it lacks does not multiply its cases.
fn axes(spec: &Spec, model: &Model) -> Vec<BTreeMap<String, u64>> {
    let mut all = vec![model.dims.clone()];
    for (name, values) in spec
        .matrix
        .axes
        .iter()
        .filter(|(name, _)| uses(model, name))
    {
        let with = |dims: &BTreeMap<_, _>, value: &u64| {
            dims.clone()
                .into_iter()
                .chain([(name.clone(), *value)])
                .collect()
        };
        all = all
            .iter()
            .flat_map(|dims| values.iter().map(|value| with(dims, value)))
            .collect();
    }
    all
}

fn uses(model: &Model, name: &str) -> bool {
    model
        .inputs
        .values()
        .any(|input| named(&input.shape).any(|dim| dim == name))
}

fn named(shape: &[Dim]) -> impl Iterator<Item = &str> {
    shape.iter().filter_map(|dim| {
        if let Dim::Named(name) = dim {
            Some(name.as_str())
        } else {
            None
        }
    })
}

fn label(
    model: &Model,
    target: &Target,
    precision: Precision,
    dims: &BTreeMap<String, u64>,
) -> String {
    let mut label = format!("{}-{}", target.name, precision.word());
    // Every size that differs is named, or two cases would have one name.
    for (name, value) in changed(model, dims) {
        let short = match name.as_str() {
            "batch" => "b",
            "seq" => "s",
            name => name,
        };
        label.push_str(&format!("-{short}{value}"));
    }
    label
}

/// The sizes that are not the model's own.
fn changed<'a>(
    model: &Model,
    dims: &'a BTreeMap<String, u64>,
) -> impl Iterator<Item = (&'a String, &'a u64)> {
    dims.iter()
        .filter(|(name, value)| model.dims.get(*name) != Some(value))
}

fn meets_names(rule: &Rule, model: &Model, target: &Target) -> bool {
    let meets = |pattern: &Option<String>, name: &str| {
        pattern.as_ref().is_none_or(|p| glob::matches(p, name))
    };
    // A rule for a row is one for all its toolchains.
    meets(&rule.model, &model.name)
        && meets(&rule.family, &model.family)
        && (meets(&rule.target, &target.name) || meets(&rule.target, &target.row))
}

fn meets(rule: &Rule, model: &Model, target: &Target, precision: Precision) -> bool {
    meets_names(rule, model, target) && rule.precision.is_none_or(|wanted| wanted == precision)
}

/// Why this source cannot become what the target loads, whatever the hardware.
fn impossible(
    model: &Model,
    target: &Target,
    precision: Precision,
    dims: &BTreeMap<String, u64>,
) -> Option<String> {
    let loads = target.artefact.name;
    if !carried(target).contains(&precision) {
        let carried: Vec<_> = carried(target)
            .iter()
            .map(|precision| precision.word())
            .collect();
        return Some(format!(
            "orch makes the `{loads}` artefact at {} only: at {} it would be another precision under this name",
            carried.join(", "),
            precision.word()
        ));
    }
    if let Source::Ready { format, .. } = &model.source {
        let (name, kept) = match format {
            ReadyFormat::Onnx => ("ONNX file", false),
            ReadyFormat::Openvino => ("OpenVINO IR", true),
            ReadyFormat::Torchscript => ("TorchScript file", true),
        };
        if !target.artefact.ready.contains(format) {
            return Some(format!(
                "a ready {name} cannot be turned into the `{loads}` artefact that this target loads"
            ));
        }
        if kept && precision != Precision::Fp32 {
            let precision = precision.word();
            return Some(format!(
                "a ready {name} runs as it is; orch converts none to {precision}"
            ));
        }
    }
    let parts: Vec<_> = model.components().map(|(part, _)| part).collect();
    if !parts.is_empty() && !target.runtime.composes {
        let runtime = target.runtime.name;
        let parts = parts.join(", ");
        return Some(format!(
            "the runtime `{runtime}` holds one model at a time in orch, and this one is a loop over {parts}"
        ));
    }
    fixed_values(model, dims).or_else(|| shorter_prompt(model, dims))
}

/// A text and the tokens that follow it need the length that the row gives them.
fn shorter_prompt(model: &Model, dims: &BTreeMap<String, u64>) -> Option<String> {
    let is_text = |input: &Input| matches!(input.fill, Fill::Text(_));
    if !model.generates() || !model.inputs.values().any(is_text) {
        return None;
    }
    let own = |name: &String| model.dims.get(name).filter(|_| name != "batch");
    let (name, _) =
        changed(model, dims).find(|(name, length)| own(name).is_some_and(|own| *length < own))?;
    Some(format!(
        "its prompt and the tokens that are generated need `{name}` {}",
        model.dims[name]
    ))
}

/// The precisions that a target's artefact really has when orch makes it.
fn carried(target: &Target) -> &'static [Precision] {
    (target.artefact.precisions)(target.half.is_some())
}

/// Literal values, pictures and sounds have the model's own size; another batch or seq would need others. Texts are
/// repeated ([`crate::plan`]).
fn fixed_values(model: &Model, dims: &BTreeMap<String, u64>) -> Option<String> {
    let literal = model
        .inputs
        .iter()
        .filter(|(_, input)| matches!(input.fill, Fill::Data(_)) || input.fill.files().is_some());
    let mut sized =
        literal.flat_map(|(name, input)| named(&input.shape).map(move |dim| (name, dim)));
    let (input, dim) = sized.find(|(_, dim)| changed(model, dims).any(|(name, _)| name == dim))?;
    Some(format!(
        "input `{input}` is given as literal values, which fit no other `{dim}` than {}",
        model.dims[dim]
    ))
}
