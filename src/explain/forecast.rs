//! What the steps that would run are going to take: time, memory and disk, known before the first of them begins.
//!
//! A step takes what its last execution took. Of one that never ran, memory and disk follow from the size of the weights
//! where the user's files tell it, and the time is not known.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::base::figures::{bytes, counted, duration};
use crate::exec::{Context, Preview};
use crate::plan::Plan;
use crate::record::Record;
use crate::step::{Stage, Step, StepId};

/// Bytes of a parameter as orch makes models: fp32.
const PARAMETER: u64 = 4;
/// Seconds of a step whose time is not worth a word.
const SHORT: f64 = 0.05;
/// A header of safetensors is shorter; a longer one is no header.
const LONGEST_HEADER: u64 = 100 << 20;

/// What one step takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Forecast {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The most that it holds at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What its output takes in the store, if nothing of it is there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Whether it is what the last execution took, and not derived from the size of the weights.
    pub is_on_record: bool,
}

/// What all of them take together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Total {
    /// Added up, as if one ran after the other.
    pub seconds: f64,
    /// The memory of the step that holds most.
    pub memory_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_step: Option<String>,
    pub disk_bytes: u64,
    /// Steps of which no time is known.
    pub unknown: usize,
    pub steps: usize,
}

impl Forecast {
    fn of_record(record: &Record, context: &Context<'_>) -> Self {
        Self {
            seconds: Some(record.seconds),
            memory_bytes: record.peak_rss_bytes(),
            disk_bytes: output_bytes(record, context),
            is_on_record: true,
        }
    }

    /// `12 s, 1.4 GiB`, and nothing where nothing is known.
    pub fn text(&self) -> String {
        let about = if self.is_on_record { "" } else { "about " };
        let seconds = self.seconds.filter(|spent| *spent >= SHORT).map(duration);
        let memory = self
            .memory_bytes
            .map(|most| format!("{about}{}", bytes(most)));
        seconds
            .into_iter()
            .chain(memory)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl Total {
    pub fn of(plan: &Plan, forecasts: &[Option<Forecast>]) -> Self {
        let mut total = Self::default();
        for (id, forecast) in plan.ids().zip(forecasts) {
            let Some(forecast) = forecast else { continue };
            total.steps += 1;
            total.unknown += usize::from(forecast.seconds.is_none());
            total.seconds += forecast.seconds.unwrap_or(0.0);
            total.disk_bytes += forecast.disk_bytes.unwrap_or(0);
            let most = forecast.memory_bytes.unwrap_or(0);
            if most > total.memory_bytes {
                total.memory_bytes = most;
                total.memory_step = Some(plan.step(id).name.clone());
            }
        }
        total
    }

    /// What is more than there is: memory that this process may use, and space where the store is, both in bytes.
    pub fn too_much(&self, memory: u64, space: Option<u64>) -> Vec<String> {
        let of_memory = self
            .memory_step
            .as_ref()
            .filter(|_| self.memory_bytes > memory);
        let of_memory = of_memory.map(|step| {
            let [takes, has] = [self.memory_bytes, memory].map(bytes);
            format!(
                "`{step}` is expected to hold {takes} of memory, and this machine has {has}: leave its model out \
                 (`--select '!NAME'`), take a smaller one, or run it where there is more"
            )
        });
        let of_disk = space.filter(|space| self.disk_bytes > *space).map(|space| {
            let [takes, has] = [self.disk_bytes, space].map(bytes);
            format!(
                "the run is expected to write {takes}, and {has} are free where the store is: make room with \
                 `orch cache gc`, or name another place with --cache-dir"
            )
        });
        of_memory.into_iter().chain(of_disk).collect()
    }

    /// One line; None where nothing would run, or nothing is known.
    pub fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.seconds > 0.0 {
            parts.push(format!("{} of work", duration(self.seconds)));
        }
        if let Some(step) = &self.memory_step {
            parts.push(format!(
                "at most {} of memory ({step})",
                bytes(self.memory_bytes)
            ));
        }
        if self.disk_bytes > 0 {
            parts.push(format!("{} of disk", bytes(self.disk_bytes)));
        }
        if parts.is_empty() {
            return None;
        }
        let unknown = match self.unknown {
            0 => String::new(),
            some => format!("; {} never ran", counted(some, "step")),
        };
        Some(format!("expected: {}{unknown}", parts.join(", ")))
    }
}

/// Forecasts by step; None for those that would not run.
pub fn forecasts(context: &Context<'_>, previews: &[Preview]) -> Vec<Option<Forecast>> {
    let plan = context.plan;
    let mut found: Vec<Option<Forecast>> = Vec::with_capacity(previews.len());
    for (id, preview) in plan.ids().zip(previews) {
        let would_run = matches!(preview, Preview::WouldRun { .. });
        let forecast = would_run.then(|| {
            let step = plan.step(id);
            let last = context.store.latest(&step.name).ok().flatten();
            let of_last = last
                .filter(|record| record.outcome.is_made())
                .map(|record| Forecast::of_record(&record, context));
            of_last.unwrap_or_else(|| derived(step, |dep| output(dep, &found, previews, context)))
        });
        found.push(forecast);
    }
    found
}

/// Bytes of a step's output: as forecast, or as they are where it is up to date; 0 where they are not known.
fn output(
    id: StepId,
    forecasts: &[Option<Forecast>],
    previews: &[Preview],
    context: &Context<'_>,
) -> u64 {
    let at = id.0 as usize;
    let forecast = forecasts.get(at).copied().flatten();
    let bytes = match (forecast, &previews[at]) {
        (Some(forecast), _) => forecast.disk_bytes,
        (None, Preview::Hit { record }) => output_bytes(record, context),
        (None, _) => None,
    };
    bytes.unwrap_or(0)
}

fn output_bytes(record: &Record, context: &Context<'_>) -> Option<u64> {
    let tree = context.store.manifest(&record.output?).ok()?;
    Some(tree.size())
}

/// What a step takes by the size of the weights that it reads. `output`: the bytes of another step's output.
fn derived(step: &Step, output: impl Fn(StepId) -> u64) -> Forecast {
    let trees = step.dependencies().map(output).max().unwrap_or(0);
    let weights = trees.max(step.files().map(weights_of).sum());
    if weights == 0 {
        return Forecast::default();
    }
    let guess = step.kind.memory();
    let writes_weights = matches!(step.stage, Stage::Generate | Stage::Convert) && guess.is_some();
    Forecast {
        memory_bytes: guess.map(|guess| guess.base + guess.factor * weights),
        disk_bytes: writes_weights.then_some(weights),
        ..Forecast::default()
    }
}

/// Bytes of the weights of a safetensors file in fp32, by its header; 0 for other files.
fn weights_of(path: &Path) -> u64 {
    let is_safetensors = path.extension().is_some_and(|end| end == "safetensors");
    if !is_safetensors {
        return 0;
    }
    parameters(path).unwrap_or(0) * PARAMETER
}

fn parameters(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return None;
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).ok()?;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&header).ok()?;
    let shapes = header
        .values()
        .filter_map(|tensor| tensor["shape"].as_array());
    let of_shape = |shape: &Vec<serde_json::Value>| -> u64 {
        shape.iter().filter_map(serde_json::Value::as_u64).product()
    };
    Some(shapes.map(of_shape).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_counted_by_their_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let header = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"F16","shape":[],"data_offsets":[12,14]}}"#;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header);
        std::fs::write(&path, file).unwrap();
        assert_eq!(weights_of(&path), 7 * PARAMETER);
        std::fs::write(&path, "damaged").unwrap();
        assert_eq!(weights_of(&path), 0);
    }

    #[test]
    fn a_total_names_the_step_that_holds_most_and_what_is_not_known() {
        let total = Total {
            seconds: 90.0,
            memory_bytes: 3 << 30,
            memory_step: Some("convert:m:onnx".to_owned()),
            disk_bytes: 1 << 30,
            unknown: 2,
            steps: 5,
        };
        assert_eq!(
            total.text().unwrap(),
            "expected: 90 s of work, at most 3.0 GiB of memory (convert:m:onnx), 1.0 GiB of disk; 2 steps never ran"
        );
        assert_eq!(Total::default().text(), None);
        assert!(total.too_much(3 << 30, None).is_empty());
        let [memory, disk] = &total.too_much(2 << 30, Some(1 << 20))[..] else {
            panic!("both are too little")
        };
        assert!(memory.starts_with(
            "`convert:m:onnx` is expected to hold 3.0 GiB of memory, and this machine has 2.0 GiB"
        ));
        assert!(disk.starts_with(
            "the run is expected to write 1.0 GiB, and 1.0 MiB are free where the store is"
        ));
    }
}
