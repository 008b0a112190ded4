//! What a report says of each model.

use crate::plan::ModelFacts;
use crate::record;
use crate::spec::{Model, Source, Spec, Weights};

pub(super) fn facts(spec: &Spec, model: &Model) -> ModelFacts {
    ModelFacts {
        model_type: model.model_type(),
        family: model.family.clone(),
        task: model.task.clone(),
        weights: weights(spec, model),
        row: model.loc.clone(),
    }
}

fn weights(spec: &Spec, model: &Model) -> record::Weights {
    match &model.source {
        Source::Transformers {
            weights: Weights::Seeded,
            ..
        } => record::Weights::Random,
        Source::Transformers {
            weights: Weights::Hub,
            ..
        } => record::Weights::Hub,
        Source::Transformers {
            weights: Weights::Path(_),
            ..
        } => record::Weights::Folder,
        // Of several the first that are not random.
        Source::Composed { components, .. } => {
            let own = components
                .values()
                .map(|name| weights(spec, &spec.models[name]));
            own.reduce(|first, next| {
                if first == record::Weights::Random {
                    next
                } else {
                    first
                }
            })
            .unwrap_or(record::Weights::Random)
        }
        Source::Ready { .. } => record::Weights::File,
    }
}
