//! The steps of a model that is made of several.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Builder;
use super::own::Made;
use crate::matrix::Case;
use crate::spec::{Compose, Model, Target};
use crate::step::{self, Inputs, Source, Stage, StepId};

impl Builder<'_> {
    /// The loop, of the components' models.
    pub(super) fn composed(
        &mut self,
        how: Compose,
        config: &Value,
        case: &Case,
        mut sources: Inputs,
    ) -> Made {
        let model = &self.spec.models[&case.model];
        for (label, _, made) in self.components(model, case) {
            sources.push((label, Source::Step(made.model)));
        }
        let params = json!({"loop": how, "config": config, "seed": model.seed, "task": model.task});
        let name = format!("generate:{}", case.instance());
        let made = self.add(
            name,
            Stage::Generate,
            &step::COMPOSE,
            params,
            sources,
            model.timeout_seconds,
        );
        Made {
            model: made,
            ready: None,
        }
    }

    /// The loop with its components' artefacts; None of one model, and where the models are the artefacts.
    pub(super) fn assembled(
        &mut self,
        target: &Target,
        label: &str,
        case: &Case,
        made: &Made,
    ) -> Option<StepId> {
        let mut sources: Inputs = vec![("model".into(), Source::Step(made.model))];
        for (label, own, made) in self.components(&self.spec.models[&case.model], case) {
            let component = &self.spec.models[&own.model];
            let export = super::export(component);
            let wanted = super::wanted(self.spec, component, target, &own, &export, &made);
            let artefact = self.artefact(target.artefact, wanted, &own, &made);
            if artefact == made.model {
                return None;
            }
            sources.push((label, Source::Step(artefact)));
        }
        if sources.len() == 1 {
            return None;
        }
        let name = format!("convert:{}:{label}", case.instance());
        Some(self.add(
            name,
            Stage::Convert,
            &step::ASSEMBLE,
            json!({}),
            sources,
            600,
        ))
    }

    /// The components of a model, each with its label, as a case of its own, and the steps that make it.
    fn components(&mut self, model: &Model, case: &Case) -> Vec<(Arc<str>, Case, Made)> {
        let mut all = Vec::new();
        for (part, component) in model.components() {
            let own = case.of_component(self.spec, &self.spec.models[component]);
            let made = self.made(&own);
            all.push((step::component(part).into(), own, made));
        }
        all
    }
}
