//! The properties by which cases are selected.

use crate::base::words::words;
use crate::spec::{Precision, Priority, Spec};

use super::Case;

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Facet {
        "model" => Model,
        /// The model's type in transformers; ready files have none.
        "type" => Type,
        "family" => Family,
        "task" => Task,
        "pipeline" => Pipeline,
        "priority" => Priority,
        /// A tag of the model or of the target.
        "tag" => Tag,
        /// The target, or the column that it is at one precision: `cpu`, `cpu-fp32`.
        "target" => Target,
        "backend" => Backend,
        "precision" => Precision,
        /// [`Case::id`]: `bert:cpu-fp32`.
        "case" => Case,
    }
}

impl Facet {
    /// What one case has of it.
    pub(super) fn words(self, spec: &Spec, case: &Case) -> Vec<String> {
        let model = &spec.models[&case.model];
        let target = &spec.targets[&case.target];
        let one = |word: &str| vec![word.to_owned()];
        match self {
            Self::Model => one(&model.name),
            Self::Type => model.model_type().into_iter().map(str::to_owned).collect(),
            Self::Family => one(&model.family),
            Self::Task => one(&model.task),
            Self::Pipeline => one(&model.pipeline),
            Self::Priority => one(model.priority.word()),
            Self::Tag => [&model.tags[..], &target.tags[..]].concat(),
            Self::Target => vec![target.name.clone(), target.column(case.precision)],
            Self::Backend => one(target.backend.name),
            Self::Precision => one(case.precision.word()),
            Self::Case => vec![case.id()],
        }
    }

    /// What exists of it without any case: leaving that out is no slip.
    pub(super) fn declared(self, spec: &Spec) -> Vec<&str> {
        match self {
            Self::Model => spec.models.keys().map(String::as_str).collect(),
            Self::Target => spec.targets.keys().map(String::as_str).collect(),
            Self::Backend => spec
                .targets
                .values()
                .map(|target| target.backend.name)
                .collect(),
            Self::Priority => Priority::WORDS.iter().map(|(word, _)| *word).collect(),
            Self::Precision => Precision::WORDS.iter().map(|(word, _)| *word).collect(),
            Self::Type | Self::Family | Self::Task | Self::Pipeline | Self::Tag | Self::Case => {
                Vec::new()
            }
        }
    }
}
