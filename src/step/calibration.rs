//! `calibration:<model>`: further sets of the example inputs, on which a quantisation finds the ranges of activations.
//!
//! Neither the inputs that a model is judged on nor the control's are among them. Equal sets are made once: where no
//! recipe has anything random in it, there is one.

use std::collections::BTreeSet;

use anyhow::anyhow;
use indexmap::IndexMap;
use serde::Deserialize;

use super::recipe::{PARTS, write};
use crate::runtime::Job;
use crate::spec::{Input, recipe};
use crate::step::{Code, Part, Places, Step, StepKind, Work, own};

pub struct Calibration;
pub static CALIBRATION: Calibration = Calibration;

/// Makes the seed of a set of that of the inputs. With the number of the set in the last two bytes it is neither that
/// itself nor the control's (`spec::recipe::control`).
const SETS: u64 = 0x6361_6c69_6272_0000;

#[derive(Deserialize)]
struct CalibrationRequest {
    seed: u64,
    inputs: IndexMap<String, Input>,
    sets: u16,
}

impl StepKind for Calibration {
    known_as!("calibration", [PARTS, &[Part::Rust("step/calibration.rs")]]);

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(own::work("calibration", step.params.json()))
    }
}

/// Writes the sets, each into a file of its number.
pub(super) fn make(job: &Job) -> anyhow::Result<()> {
    let request = CalibrationRequest::deserialize(&job.params)?;
    let mut known = BTreeSet::new();
    for set in 0..request.sets {
        let seed = request.seed ^ (SETS | u64::from(set));
        let made = recipe::tensors(seed, &request.inputs, &Default::default())
            .map_err(|why| anyhow!(why))?;
        let bytes: Vec<_> = made.iter().map(|tensor| tensor.bytes.clone()).collect();
        if known.insert(bytes) {
            write(&job.out.join(format!("{set:04}.safetensors")), made)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::tensors;

    fn job(params: Value, out: &Path) -> Job {
        Job {
            params,
            out: out.to_owned(),
            ..Job::default()
        }
    }

    fn params(fill: Value, sets: u32) -> Value {
        let input = json!({"dtype": "float32", "shape": [{"fixed": 4}], "fill": fill});
        json!({"seed": 7, "inputs": {"x": input}, "sets": sets})
    }

    fn contents(folder: &Path) -> BTreeSet<Vec<u8>> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn no_set_is_another_nor_what_a_model_is_judged_on() {
        let dir = tempfile::tempdir().unwrap();
        let sets = dir.path().join("sets");
        let judged = dir.path().join("judged");
        for folder in [&sets, &judged] {
            fs::create_dir(folder).unwrap();
        }
        make(&job(params(json!({"normal": [0.0, 1.0]}), 16), &sets)).unwrap();
        crate::step::recipe::make(&job(params(json!({"normal": [0.0, 1.0]}), 16), &judged))
            .unwrap();
        let sets = contents(&sets);
        let judged = contents(&judged);
        assert_eq!((sets.len(), judged.len()), (16, 2));
        assert!(sets.is_disjoint(&judged));
    }

    #[test]
    fn equal_sets_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        make(&job(params(json!({"value": 1.0}), 16), dir.path())).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let set = tensors::read(&dir.path().join("0000.safetensors")).unwrap();
        assert_eq!(set["x"].to_f64(), [1.0; 4]);
    }
}
