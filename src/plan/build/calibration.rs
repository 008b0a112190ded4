//! The step that makes what a quantisation is calibrated on.

use serde_json::json;

use super::Builder;
use crate::matrix::Case;
use crate::plan::sizes::{recipes, resolved_inputs};
use crate::step::{self, Stage, StepId};

impl Builder<'_> {
    /// `calibration:<instance>`: sets of the model's inputs; None where no recipe makes any.
    pub(super) fn calibration(&mut self, case: &Case) -> Option<StepId> {
        let model = &self.spec.models[&case.model];
        let recipes = recipes(&resolved_inputs(model, case));
        if recipes.is_empty() {
            return None;
        }
        let params = json!({"seed": model.seed, "inputs": recipes, "sets": model.calibration_sets});
        let name = format!("calibration:{}", case.instance());
        Some(self.add(name, Stage::Generate, &step::CALIBRATION, params, vec![], 600))
    }
}
