//! Which model stands for a pipeline where one is to be enough.

use super::Matrix;
use crate::spec::Spec;

/// A pipeline of the spec, and the model that stands for it. None: no model with a case has it.
#[derive(Debug, PartialEq)]
pub struct Representative<'a> {
    pub pipeline: &'a str,
    pub model: Option<&'a str>,
}

impl Matrix {
    /// One model for each pipeline, in the order of the spec: of the highest priority, and of those the first.
    pub fn representatives<'a>(&'a self, spec: &'a Spec) -> Vec<Representative<'a>> {
        let of = |pipeline: &str| {
            // Cases stand in the order of priority.
            self.cases.iter().find(|case| case.pipeline == pipeline).map(|case| case.model.as_str())
        };
        spec.pipelines.keys().map(|pipeline| Representative { pipeline, model: of(pipeline) }).collect()
    }
}
