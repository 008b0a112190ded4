//! A way of using models, as `pipelines:` declares it.

use std::collections::BTreeMap;

use super::{Model, Spec};

/// One row of `pipelines:`.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub tasks: Vec<String>,
    /// `templates/pipelines/<template>.py.j2`.
    pub template: String,
    /// By task: the outputs whose whole numbers are tokens.
    pub tokens: BTreeMap<String, Vec<String>>,
}

impl Spec {
    /// The outputs of a model whose whole numbers are tokens, by its task in a pipeline.
    pub fn tokens(&self, model: &Model, pipeline: &str) -> &[String] {
        self.pipelines[pipeline].tokens.get(&model.task).map_or(&[], Vec::as_slice)
    }
}
