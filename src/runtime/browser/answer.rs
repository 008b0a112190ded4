//! Checks a page's answer: every node must be on the requested provider, and the outputs must be those of the manifest.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::options::Options;
use crate::base::Bug;
use crate::browser::Api;
use crate::runtime::refusal::{Refusal, folds_to_constants, without_f16};
use crate::runtime::tensors::{Element, Tensor, Tensors};
use crate::runtime::{JobStatus, RawMeasure, Times};

#[derive(Debug, Deserialize)]
pub(in crate::runtime) struct Answer {
    status: JobStatus,
    reason: Option<String>,
    pub(super) facts: Value,
    /// Nodes by provider, by ONNX Runtime's own log.
    #[serde(default)]
    pub(super) placement: BTreeMap<String, u64>,
    /// ONNX Runtime reported the places of all nodes, even if there are none.
    #[serde(default)]
    placed_all: bool,
    /// Some of the nodes that another provider took.
    #[serde(default)]
    elsewhere: Vec<String>,
    /// The provider's own log: into how many parts it cut the graph, and how many nodes it took.
    #[serde(default)]
    pub(super) partitions: Value,
    #[serde(default)]
    pub(super) complaints: Vec<String>,
    /// None where nothing was to be timed.
    measure: Option<Times>,
    #[serde(default)]
    outputs: Vec<Described>,
    /// The outputs for the control's inputs, where there are any.
    control_outputs: Option<Vec<Described>>,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    length: usize,
}

impl Answer {
    pub(in crate::runtime) fn of(answer: &Value) -> anyhow::Result<Self> {
        Self::deserialize(answer).context(Bug::new("the page's answer cannot be read"))
    }

    /// What was seen of the run, if it is one of what was requested. `sync` says how the page waits for the device; None of
    /// a run that is not timed.
    pub(super) fn judge(
        &self,
        options: &Options,
        sync: Option<&str>,
    ) -> anyhow::Result<RawMeasure> {
        let provider = options.provider_name();
        let strangers: u64 = self
            .placement
            .iter()
            .filter(|(name, _)| *name != provider)
            .map(|(_, count)| count)
            .sum();
        if self.status != JobStatus::Ok {
            let reason = self
                .reason
                .clone()
                .unwrap_or_else(|| "the page gave no reason".to_owned());
            if let Some(reason) = without_f16(&reason) {
                return Err(Refusal::because(JobStatus::Unsupported, reason));
            }
            if strangers == 0 {
                return Err(Refusal::because(self.status, reason));
            }
            let nodes = self.nodes(strangers);
            let reason =
                format!("{provider} leaves {strangers} nodes to others: {nodes} ({reason})");
            return Err(Refusal::because(self.status, reason));
        }
        ensure!(
            strangers == 0,
            "{strangers} of the model's nodes ran elsewhere than on {provider}: {}; placement {:?}",
            self.nodes(strangers),
            self.placement
        );
        if self.placement.is_empty() && self.placed_all {
            return Err(Refusal::because(
                JobStatus::Unsupported,
                folds_to_constants(provider),
            ));
        }
        // Silence is no evidence: a bundle that logs otherwise must not look like a model that runs as a whole.
        ensure!(
            self.placement.get(provider).is_some_and(|count| *count > 0),
            "ONNX Runtime Web did not say that any node is on {provider}; placement {:?}",
            self.placement
        );
        let timed = |sync: &str| {
            let taken = self
                .measure
                .clone()
                .context(Bug::new("the page measured nothing"))?;
            anyhow::Ok(Times {
                sync: sync.to_owned(),
                ..taken
            })
        };
        let times = sync.map(timed).transpose()?;
        let (requested, actual_device) = self.devices(options)?;
        let requested_device = requested.to_owned();
        let placement = self.placement.clone();
        Ok(RawMeasure {
            times,
            requested_device,
            actual_device,
            placement,
            ..RawMeasure::default()
        })
    }

    /// The nodes that another provider took, as far as they are named.
    fn nodes(&self, all: u64) -> String {
        let named = self.elsewhere.join(", ");
        if (self.elsewhere.len() as u64) < all {
            format!("{named}, …")
        } else {
            named
        }
    }

    /// The requested device, and the one that ran. A software adapter is always labelled so.
    fn devices(&self, options: &Options) -> anyhow::Result<(&'static str, String)> {
        match options.api {
            Api::WebNn => return Ok(("webnn:cpu", "webnn:cpu".to_owned())),
            Api::Wasm => return Ok(("cpu:wasm", "cpu:wasm".to_owned())),
            Api::WebGpu => {}
        }
        let adapter = &self.facts["adapter"];
        let word = |key: &str| adapter[key].as_str().unwrap_or_default();
        let named = [word("vendor"), word("architecture")].join(" ");
        let named = named.trim();
        ensure!(
            !named.is_empty(),
            "WebGPU does not say which adapter ran the model: {adapter}"
        );
        let is_software =
            adapter["is_fallback_adapter"] == true || word("architecture") == "swiftshader";
        let label = if is_software {
            format!("{named} (software)")
        } else {
            named.to_owned()
        };
        Ok(("webgpu-browser", format!("webgpu-browser:{label}")))
    }

    /// Outputs as tensors, under `names` by position, and those of the control after them.
    pub(super) fn outputs(
        &self,
        bytes: &[u8],
        names: &[String],
    ) -> anyhow::Result<(Tensors, Option<Tensors>)> {
        let (outputs, rest) = named(&self.outputs, bytes, names)?;
        let control = self
            .control_outputs
            .as_ref()
            .map(|described| named(described, rest, names))
            .transpose()?;
        let (control, rest) = control.map_or((None, rest), |(control, rest)| (Some(control), rest));
        ensure!(
            rest.is_empty(),
            "the page sent {} bytes too many",
            rest.len()
        );
        Ok((outputs, control))
    }
}

/// Tensors from the beginning of `bytes`, and what lies behind them.
fn named<'b>(
    described: &[Described],
    bytes: &'b [u8],
    names: &[String],
) -> anyhow::Result<(Tensors, &'b [u8])> {
    ensure!(
        described.len() == names.len(),
        "the model returned {} outputs, and its manifest names {}: {names:?}",
        described.len(),
        names.len()
    );
    let mut tensors = Tensors::new();
    let mut rest = bytes;
    for (described, name) in described.iter().zip(names) {
        let (own, after) = rest.split_at_checked(described.length).with_context(|| {
            format!(
                "the page sent too few bytes for the output `{}`",
                described.name
            )
        })?;
        rest = after;
        let element = Element::named(&described.dtype)
            .with_context(|| format!("the output `{name}` has the type {}", described.dtype))?;
        let tensor = Tensor::new(element, described.shape.clone(), own.to_vec());
        let tensor = tensor.with_context(|| format!("output `{name}`"))?;
        ensure!(
            tensors.insert(name.clone(), tensor).is_none(),
            "the manifest names the output `{name}` twice"
        );
    }
    Ok((tensors, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn options() -> Options {
        Options::of("webgpu-browser", "webgpu", &Map::new()).unwrap()
    }

    fn answer(placement: Value, adapter: Value) -> Answer {
        Answer::of(&json!({
            "status": "ok",
            "facts": {"adapter": adapter},
            "placement": placement,
            "elsewhere": ["Det `/det`"],
            "measure": {"load_ms": 1.0, "first_ms": 2.0, "warmup_ms": [], "samples_ms": [0.5]},
            "outputs": [{"name": "y", "dtype": "int32", "shape": [2], "length": 8}],
        }))
        .unwrap()
    }

    fn judged(placement: Value, adapter: Value) -> anyhow::Result<RawMeasure> {
        answer(placement, adapter).judge(&options(), Some(""))
    }

    fn swiftshader() -> Value {
        json!({"vendor": "google", "architecture": "swiftshader", "is_fallback_adapter": false})
    }

    #[test]
    fn a_node_elsewhere_or_silence_about_placement_is_no_measurement() {
        let all = judged(json!({"WebGpuExecutionProvider": 9}), swiftshader()).unwrap();
        assert_eq!(
            all.actual_device,
            "webgpu-browser:google swiftshader (software)"
        );
        for (placement, adapter, expected) in [
            (
                json!({"WebGpuExecutionProvider": 9, "CPUExecutionProvider": 1}),
                swiftshader(),
                "on WebGpuExecutionProvider: Det `/det`",
            ),
            (json!({}), swiftshader(), "did not say"),
            (
                json!({"WebGpuExecutionProvider": 9}),
                json!({}),
                "does not say which adapter",
            ),
        ] {
            let error = judged(placement, adapter).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let none = Answer {
            placed_all: true,
            ..answer(json!({}), swiftshader())
        };
        assert_eq!(
            Refusal::status_of(&none.judge(&options(), Some("")).unwrap_err()),
            JobStatus::Unsupported
        );
    }

    #[test]
    fn a_fallback_adapter_is_software_by_whatever_name() {
        let of = |adapter| judged(json!({"WebGpuExecutionProvider": 1}), adapter).unwrap();
        let fallback =
            json!({"vendor": "mesa", "architecture": "llvm", "is_fallback_adapter": true});
        assert_eq!(
            of(fallback).actual_device,
            "webgpu-browser:mesa llvm (software)"
        );
        let real =
            json!({"vendor": "nvidia", "architecture": "hopper", "is_fallback_adapter": false});
        assert_eq!(of(real).actual_device, "webgpu-browser:nvidia hopper");
    }

    #[test]
    fn a_refusal_keeps_its_status_and_names_the_nodes() {
        let refused = Answer::of(&json!({
            "status": "unsupported",
            "reason": "fallback is disabled",
            "facts": {},
            "placement": {"WebGpuExecutionProvider": 3, "CPUExecutionProvider": 1},
            "elsewhere": ["Det `/det`"],
        }));
        let error = refused.unwrap().judge(&options(), Some("")).unwrap_err();
        assert_eq!(
            error.downcast_ref::<Refusal>().unwrap().status,
            JobStatus::Unsupported
        );
        assert_eq!(
            error.to_string(),
            "WebGpuExecutionProvider leaves 1 nodes to others: Det `/det` (fallback is disabled)"
        );
    }

    #[test]
    fn outputs_are_exactly_the_bytes_that_the_manifest_names() {
        let answer = answer(json!({}), json!({}));
        let names = ["out".to_owned()];
        assert_eq!(
            answer.outputs(&[1, 0, 0, 0, 2, 0, 0, 0], &names).unwrap().0["out"].to_f64(),
            [1.0, 2.0]
        );
        assert!(answer.outputs(&[0; 4], &names).is_err());
        assert!(
            answer
                .outputs(&[0; 12], &names)
                .unwrap_err()
                .to_string()
                .contains("4 bytes too many")
        );
        assert!(
            answer
                .outputs(&[0; 8], &[])
                .unwrap_err()
                .to_string()
                .contains("its manifest names 0")
        );
    }
}
