//! Where a session runs: one provider, on the device that was asked for, or not at all.

use ::ort::session::builder::SessionBuilder;
use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::host::{CPU, Host, OPTIMISATION, QNN, plain, strict};
use super::placement::Placement;
use super::webgpu::WEBGPU;
use super::{Failure, Params, gpu, qnn, webgpu};
use crate::base::Digest;
use crate::device::Lease;
use crate::runtime::JobStatus;
use crate::runtime::onnx_proto::NodeProto;
use crate::runtime::refusal::folds_to_constants;

/// Where a job's session runs.
pub(super) struct Place {
    pub(super) provider: &'static str,
    pub(super) requested: String,
    pub(super) actual: String,
    pub(super) options: Vec<(String, String)>,
    /// Its GPU, where it has one of its own.
    pub(super) lease: Option<Lease>,
    pub(super) more: Map<String, Value>,
}

type Open = fn(&Params) -> Result<(Host, Place), Failure>;

/// By the params' `ep`. Environment variables are set before the library is loaded.
const PLACES: &[(&str, Open)] = &[
    ("cpu", |params| {
        if let Some(name) = params.options.keys().next() {
            return Err(Failure::error(format!("the CPU provider takes no option `{name}`; known: `threads`")));
        }
        Ok((Host::load(&params.library)?, Place::new(CPU, "cpu", "cpu")))
    }),
    // Models may be compiled for other chips, but not run.
    ("qnn", |params| {
        qnn::fits(&params.options, qnn::soc_here().as_deref()).map_err(Failure::unavailable)?;
        Place::qnn(params)
    }),
    ("webgpu", |params| {
        let library = params.ep_library()?;
        let place = webgpu::place(params)?;
        let host = Host::load(&params.library)?;
        host.add_plugin(WEBGPU, library)?;
        Ok((host, place))
    }),
    ("cuda", |params| {
        gpu::settle_tf32(params)?;
        let place = gpu::seen(gpu::cuda(params)?)?;
        Ok((Host::load(&params.library)?, place))
    }),
    ("rocm", |params| {
        let place = gpu::rocm(params)?;
        let host = Host::load(&params.library)?;
        Ok((host, Place { provider: gpu::of_amd(), ..place }))
    }),
    ("coreml", |params| {
        let place = gpu::coreml(params)?;
        Ok((Host::load(&params.library)?, place))
    }),
];

impl Place {
    pub(super) fn new(provider: &'static str, requested: &str, actual: impl Into<String>) -> Self {
        let (requested, actual) = (requested.to_owned(), actual.into());
        Self { provider, requested, actual, options: Vec::new(), lease: None, more: Map::new() }
    }

    pub(super) fn with_options(self, options: Vec<(String, String)>) -> Self {
        Self { options, ..self }
    }

    pub(super) fn with_fact(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    pub(super) fn on(self, lease: Lease) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Loads the libraries that the params name.
    pub(super) fn open(params: &Params) -> Result<(Host, Self), Failure> {
        let asked = params.ep.as_deref().unwrap_or("cpu");
        let Some((_, open)) = PLACES.iter().find(|(name, _)| *name == asked) else {
            let hint = crate::base::suggest::hint(asked, PLACES.iter().map(|(name, _)| *name));
            return Err(Failure::error(format!("ort has no execution provider `{asked}`; {hint}")));
        };
        open(params)
    }

    /// QNN, whatever `ep` says.
    pub(super) fn qnn(params: &Params) -> Result<(Host, Self), Failure> {
        let options = qnn::options(&params.options).map_err(Failure::error)?;
        let library = params.ep_library()?;
        let host = Host::load(&params.library)?;
        host.add_plugin(QNN, library)?;
        Ok((host, Self::new(QNN, "qnn-htp", qnn::actual_device()).with_options(options)))
    }

    /// The provider's options, as facts have them.
    pub(super) fn options(&self) -> Map<String, Value> {
        self.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    }

    /// A builder whose session runs here or not at all.
    pub(super) fn builder(&self, host: &Host, threads: Option<usize>) -> anyhow::Result<SessionBuilder> {
        let mut builder = self.lenient(host)?;
        if let Some(threads) = threads {
            ensure!(threads > 0, "`threads` is 0: give a positive number, or leave it out");
            builder = builder.with_intra_threads(threads).map_err(plain)?;
        }
        if self.provider == CPU { Ok(builder) } else { strict(builder) }
    }

    /// A builder whose session may leave nodes to the CPU; used only to ask which.
    pub(super) fn lenient(&self, host: &Host) -> anyhow::Result<SessionBuilder> {
        host.builder(self.provider, &self.options)
    }

    /// What belongs into the record about libraries and settings.
    pub(super) fn facts(&self, host: &Host, params: &Params) -> Result<Map<String, Value>, Failure> {
        let mut facts = json!({"onnxruntime": host.version, "provider": self.provider});
        if let (QNN | WEBGPU, Some(library)) = (self.provider, &params.ep_library) {
            // The provider calls itself 0.1.0 in every release, so its content is what tells one from another.
            let digest = Digest::of_file(library).with_context(|| format!("failed to read `{}`", library.display()))?;
            facts["provider_library"] = json!(digest);
        }
        facts["options"] = Value::Object(self.options());
        facts["graph_optimisation"] = json!(OPTIMISATION);
        facts["threads"] = json!(params.threads);
        facts["cpu_fallback"] = json!(if self.provider == CPU { "not applicable" } else { "disabled" });
        let Value::Object(mut facts) = facts else { unreachable!() };
        facts.extend(self.more.clone());
        Ok(facts)
    }

    /// How a run here knows that the device is done.
    pub(super) fn sync(&self) -> &'static str {
        match self.provider {
            CPU | QNN => "synchronous call",
            _ => "synchronous call, which returns when the outputs are in host memory",
        }
    }

    /// Every node ran where it was asked to, and there was one. `nodes`: those of the optimised model.
    pub(super) fn assert(
        &self,
        placement: &Placement,
        nodes: impl FnOnce() -> anyhow::Result<Vec<NodeProto>>,
    ) -> Result<(), Failure> {
        let elsewhere = placement.elsewhere(self.provider);
        let mut output = if let Some(node) = elsewhere.first() {
            Failure::error(format!(
                "{} of the model's nodes ran elsewhere than on {}: {} `{}` and others; placement {:?}",
                elsewhere.len(),
                self.provider,
                node.operator,
                node.name,
                placement.counts()
            ))
        } else if placement.counts().is_empty() && self.provider != CPU {
            match nodes()?.is_empty() {
                true => Failure::new(JobStatus::Unsupported, folds_to_constants(self.provider)),
                false => Failure::error(format!("no node of the model ran on {}", self.provider)),
            }
        } else {
            return Ok(());
        };
        output.facts = json!({ "placement": placement.counts() });
        Err(output)
    }
}
