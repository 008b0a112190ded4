//! The steps of a model that is made of several.

use std::sync::Arc;

use serde_json::{Value, json};

use super::own::Made;
use super::{Builder, CONVERT_TIMEOUT};
use crate::catalogue::Artefact;
use crate::matrix::Case;
use crate::spec::{Compose, Model, Target};
use crate::step::{self, Source, Stage, StepId};

impl Builder<'_> {
    /// The loop, of the components' models.
    pub(super) fn composed(
        &mut self,
        model: &Model,
        how: Compose,
        config: &Value,
        case: &Case,
        mut sources: Vec<(Arc<str>, Source)>,
    ) -> Made {
        for (part, component) in model.components() {
            let component = &self.spec.models[component];
            let own = case.of_component(self.spec, component);
            let made = self.made(component, &own);
            sources.push((step::component(part).into(), Source::Step(made.model)));
        }
        let params = json!({"loop": how, "config": config, "seed": model.seed, "task": model.task});
        let name = format!("generate:{}", case.instance());
        let made = self.add(name, Stage::Generate, &step::COMPOSE, params, sources, CONVERT_TIMEOUT);
        Made { model: made, ready: None }
    }

    /// The loop with its components' artefacts; None of one model, and where the models are the artefacts.
    pub(super) fn assembled(
        &mut self,
        model: &Model,
        target: &Target,
        label: &str,
        case: &Case,
        made: &Made,
    ) -> Option<StepId> {
        let mut sources: Vec<(Arc<str>, Source)> = vec![("model".into(), Source::Step(made.model))];
        for (part, component) in model.components() {
            let component = &self.spec.models[component];
            let own = case.of_component(self.spec, component);
            let made = self.made(component, &own);
            let artefact = self.converted(component, target, &own, &made);
            if artefact == made.model {
                return None;
            }
            sources.push((step::component(part).into(), Source::Step(artefact)));
        }
        if sources.len() == 1 {
            return None;
        }
        let name = format!("convert:{}:{label}", case.instance());
        Some(self.add(name, Stage::Convert, &step::ASSEMBLE, json!({}), sources, 600))
    }

    /// What a target loads of one model.
    fn converted(&mut self, model: &Model, target: &Target, case: &Case, made: &Made) -> StepId {
        let export = super::export(model);
        let wanted = super::wanted(self.spec, model, target, case, &export, made);
        let kind: &'static Artefact = target.artefact;
        self.artefact(kind, wanted, case, made)
    }
}
