//! The place where a session runs: one provider, on the device that was requested, or not at all.

use std::path::Path;

use ::ort::session::Session;
use ::ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::host::{CPU, Host, OPTIMISATION, QNN, plain, strict};
use super::placement::Placement;
use super::webgpu::WEBGPU;
use super::{Params, gpu, qnn, webgpu};
use crate::base::Digest;
use crate::device::Lease;
use crate::runtime::onnx_proto::NodeProto;
use crate::runtime::refusal::{Refusal, folds_to_constants};
use crate::runtime::{JobStatus, onnx_file};

/// The provider and device on which a job's session runs.
pub(super) struct Place {
    pub(super) provider: &'static str,
    pub(super) requested: String,
    pub(super) actual: String,
    pub(super) options: Vec<(String, String)>,
    /// Its GPU, where it has one of its own.
    pub(super) lease: Option<Lease>,
    pub(super) more: Map<String, Value>,
}

type Open = fn(&Params) -> Result<(Host, Place)>;

/// The openers by the params' `ep`. Environment variables are set before the library is loaded.
pub(super) const PLACES: &[(&str, Open)] = &[
    ("cpu", |params| {
        if let Some(name) = params.options.keys().next() {
            bail!("the CPU provider takes no option `{name}`; known: `threads`");
        }
        Ok((Host::load(&params.library)?, Place::new(CPU, "cpu", "cpu")))
    }),
    // Models may be compiled for other chips, but not run.
    ("qnn", |params| {
        qnn::fits(&params.options, qnn::soc_here().as_deref()).map_err(Refusal::unavailable)?;
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
        Ok((
            host,
            Place {
                provider: gpu::of_amd(),
                ..place
            },
        ))
    }),
    ("coreml", |params| {
        let place = gpu::coreml(params)?;
        Ok((Host::load(&params.library)?, place))
    }),
];

impl Place {
    pub(super) fn new(provider: &'static str, requested: &str, actual: impl Into<String>) -> Self {
        let requested = requested.to_owned();
        let actual = actual.into();
        Self {
            provider,
            requested,
            actual,
            options: Vec::new(),
            lease: None,
            more: Map::new(),
        }
    }

    pub(super) fn with_fact(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// Loads the libraries that the params name.
    fn open(params: &Params) -> Result<(Host, Self)> {
        let provider = params.ep.as_deref().unwrap_or("cpu");
        let Some((_, open)) = PLACES.iter().find(|(name, _)| *name == provider) else {
            let hint = crate::base::suggest::hint(provider, PLACES.iter().map(|(name, _)| *name));
            bail!("ort has no execution provider `{provider}`; {hint}");
        };
        open(params)
    }

    fn qnn(params: &Params) -> Result<(Host, Self)> {
        let options = qnn::options(&params.options).map_err(anyhow::Error::msg)?;
        let library = params.ep_library()?;
        let host = Host::load(&params.library)?;
        host.add_plugin(QNN, library)?;
        Ok((
            host,
            Self {
                options,
                ..Self::new(QNN, "qnn-htp", qnn::actual_device())
            },
        ))
    }

    /// The provider's options, as facts have them.
    pub(super) fn options(&self) -> Map<String, Value> {
        self.options
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect()
    }

    /// A builder whose session runs here or not at all.
    pub(super) fn builder(&self, host: &Host, threads: Option<usize>) -> Result<SessionBuilder> {
        let mut builder = self.lenient(host)?;
        if let Some(threads) = threads {
            ensure!(
                threads > 0,
                "`threads` is 0: give a positive number, or leave it out"
            );
            builder = builder.with_intra_threads(threads).map_err(plain)?;
        }
        if self.provider == CPU {
            Ok(builder)
        } else {
            strict(builder)
        }
    }

    fn lenient(&self, host: &Host) -> Result<SessionBuilder> {
        host.builder(self.provider, &self.options)
    }

    /// What belongs into the record about libraries and settings.
    fn facts(&self, host: &Host, params: &Params) -> Result<Map<String, Value>> {
        let mut facts = json!({"onnxruntime": host.version, "provider": self.provider});
        if let (QNN | WEBGPU, Some(library)) = (self.provider, &params.ep_library) {
            // The provider calls itself 0.1.0 in every release, so its content is what distinguishes one from another.
            let digest = Digest::of_file(library)
                .with_context(|| format!("failed to read `{}`", library.display()))?;
            facts["provider_library"] = json!(digest);
        }
        facts["options"] = Value::Object(self.options());
        facts["graph_optimisation"] = json!(OPTIMISATION);
        facts["threads"] = json!(params.threads);
        facts["cpu_fallback"] = json!(if self.provider == CPU {
            "not applicable"
        } else {
            "disabled"
        });
        let Value::Object(mut facts) = facts else {
            unreachable!()
        };
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

    /// Every node ran on the requested device, and there was one. `nodes`: those of the optimised model.
    pub(super) fn assert(
        &self,
        placement: &Placement,
        nodes: impl FnOnce() -> Result<Vec<NodeProto>>,
    ) -> Result<()> {
        let elsewhere = placement.elsewhere(self.provider);
        let counts = placement.counts();
        let (status, reason) = if let Some(node) = elsewhere.first() {
            let reason = format!(
                "{} of the model's nodes ran elsewhere than on {}: {} `{}` and others; placement {counts:?}",
                elsewhere.len(),
                self.provider,
                node.operator,
                node.name,
            );
            (JobStatus::Error, reason)
        } else if counts.is_empty() && self.provider != CPU {
            match nodes()?.is_empty() {
                true => (JobStatus::Unsupported, folds_to_constants(self.provider)),
                false => (
                    JobStatus::Error,
                    format!("no node of the model ran on {}", self.provider),
                ),
            }
        } else {
            return Ok(());
        };
        Err(Refusal::with_facts(
            status,
            reason,
            json!({"placement": counts}),
        ))
    }
}

/// The place of a job's sessions with the libraries that are loaded for it: a process can load them only once.
pub(super) struct Bench<'p> {
    pub(super) host: Host,
    pub(super) place: Place,
    pub(super) params: &'p Params,
}

impl<'p> Bench<'p> {
    pub(super) fn open(params: &'p Params) -> Result<Self> {
        let (host, place) = Place::open(params)?;
        Ok(Self {
            host,
            place,
            params,
        })
    }

    /// QNN, whatever `ep` says.
    pub(super) fn qnn(params: &'p Params) -> Result<Self> {
        let (host, place) = Place::qnn(params)?;
        Ok(Self {
            host,
            place,
            params,
        })
    }

    /// A builder whose session may leave nodes to the CPU; used only to ask which.
    pub(super) fn lenient(&self) -> Result<SessionBuilder> {
        self.place.lenient(&self.host)
    }

    pub(super) fn session(&self, model: &Path) -> Result<Session> {
        self.place
            .builder(&self.host, self.params.threads)?
            .commit_from_file(model)
            .map_err(plain)
    }

    /// A session that computes node by node, as the file says: what a reference is made with.
    pub(super) fn as_written(&self, model: &Path) -> Result<Session> {
        let builder = self.place.builder(&self.host, self.params.threads)?;
        builder
            .with_optimization_level(GraphOptimizationLevel::Disable)
            .map_err(plain)?
            .commit_from_file(model)
            .map_err(plain)
    }

    /// The placement of a model's nodes, if that is where they were to be.
    pub(super) fn placement(&self, session: &Session, model: &Path) -> Result<Placement> {
        let placement = Placement::of(session)?;
        self.place.assert(&placement, || self.nodes(model))?;
        Ok(placement)
    }

    pub(super) fn nodes(&self, model: &Path) -> Result<Vec<NodeProto>> {
        self.optimised(|builder| builder.commit_from_file(model))
    }

    /// The nodes of the graph as ONNX Runtime executes it on the CPU, after all of its optimisations. `commit` loads the
    /// model, from wherever it is.
    pub(super) fn optimised(
        &self,
        commit: impl FnOnce(&mut SessionBuilder) -> ::ort::Result<Session>,
    ) -> Result<Vec<NodeProto>> {
        let folder = tempfile::Builder::new()
            .prefix("optimised-")
            .tempdir_in(".")
            .context("failed to make a folder")?;
        let written = folder.path().join("optimised.onnx");
        let builder = Place::new(CPU, "cpu", "cpu").builder(&self.host, self.params.threads)?;
        let mut builder = builder.with_optimized_model_path(&written).map_err(plain)?;
        // Weights go beside the graph: a message of protobuf ends at 2 GiB.
        for (key, value) in [
            (
                "session.optimized_model_external_initializers_file_name",
                "weights",
            ),
            (
                "session.optimized_model_external_initializers_min_size_in_bytes",
                "1024",
            ),
        ] {
            builder = builder.with_config_entry(key, value).map_err(plain)?;
        }
        commit(&mut builder).map_err(plain)?;
        Ok(onnx_file::read(&written)?.graph.unwrap_or_default().node)
    }

    pub(super) fn facts(&self) -> Result<Map<String, Value>> {
        self.place.facts(&self.host, self.params)
    }
}
