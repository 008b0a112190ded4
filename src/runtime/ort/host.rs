//! The loaded library: one ONNX Runtime a process, its providers' devices, and the sessions that run on exactly one of them.
//!
//! Which model is loaded and what comes of it is not known here.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::ort::environment::Environment;
use ::ort::logging::LogLevel;
use ::ort::session::Session;
use ::ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use anyhow::{Context, Result};

use super::gpu;
use crate::runtime::JobStatus;
use crate::runtime::refusal::Refusal;

pub(super) const CPU: &str = "CPUExecutionProvider";
pub(super) const QNN: &str = "QNNExecutionProvider";

/// The level that every session here runs at, as it stands in the facts.
pub(super) const OPTIMISATION: &str = "all";

pub(super) struct Host {
    pub(super) environment: Environment,
    /// `1.31.1`
    pub(super) version: String,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) level: LogLevel,
    /// `qnn_execution_provider.cc:1713 LogNodeSupport`
    pub(super) place: String,
    pub(super) text: String,
}

impl Message {
    /// The provider's word that it failed as a whole. Its list of the nodes that it refuses comes at the same level and
    /// is not one.
    pub(super) fn failure(&self) -> Option<String> {
        let error =
            matches!(self.level, LogLevel::Error | LogLevel::Fatal) && self.place.contains("qnn");
        (error && !self.text.contains("Unsupported nodes")).then(|| self.text.trim().to_owned())
    }
}

/// What a session logged, filled while it is being made.
pub(super) type Messages = Arc<Mutex<Vec<Message>>>;

impl Host {
    pub(super) fn load(library: &Path) -> Result<Self> {
        let load = || {
            let environment = ort::init_from(library)?.with_name("orch").build()?;
            anyhow::Ok(Self {
                environment,
                version: version(library)?,
            })
        };
        let place = library.display();
        load().map_err(|e| {
            Refusal::unavailable(format!("failed to load ONNX Runtime from `{place}`: {e}"))
        })
    }

    /// Adds a plugin provider and makes sure that it brought a device.
    pub(super) fn add_plugin(&self, provider: &str, library: &Path) -> Result<()> {
        self.environment
            .register_ep_library(provider, library)
            .map_err(|e| {
                let name = provider.trim_end_matches("ExecutionProvider");
                let place = library.display();
                Refusal::unavailable(format!(
                    "failed to load the {name} provider from `{place}`: {}",
                    e.message()
                ))
            })?;
        if self.devices_of(provider).next().is_none() {
            return Err(Refusal::unavailable(format!(
                "`{}` was loaded and offers no device",
                library.display()
            )));
        }
        Ok(())
    }

    fn devices_of<'h>(
        &'h self,
        provider: &'h str,
    ) -> impl Iterator<Item = ort::device::Device<'h>> {
        self.environment
            .devices()
            .filter(move |device| device.ep().is_ok_and(|name| name == provider))
    }

    /// A session builder bound to one provider's device.
    ///
    /// The device is always named: with the crate's default policy every session is offered to every registered plugin,
    /// and a plain CPU session then fails for want of QNN options.
    pub(super) fn builder(
        &self,
        provider: &str,
        options: &[(String, String)],
    ) -> Result<SessionBuilder> {
        let builder = Session::builder(&self.environment).map_err(plain)?;
        let builder = match gpu::built_in(provider, options) {
            Some(own) => builder.with_execution_providers([own]).map_err(plain)?,
            None => {
                // A chip's processor before the CPU that the provider also offers itself for.
                let is_npu = |device: &ort::device::Device<'_>| {
                    matches!(device.hardware_device().ty(), ort::memory::DeviceType::NPU)
                };
                let npu = self.devices_of(provider).find(is_npu);
                let device = npu.or_else(|| self.devices_of(provider).next());
                let device = device
                    .with_context(|| format!("ONNX Runtime offers no device of {provider}"))?;
                let prefixed: Vec<_> = options
                    .iter()
                    .map(|(name, value)| (format!("{provider}.{name}"), value.clone()))
                    .collect();
                builder
                    .with_devices([device], Some(&prefixed))
                    .map_err(plain)?
            }
        };
        let builder = builder
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(plain)?;
        builder
            .with_config_entry("session.record_ep_graph_assignment_info", "1")
            .map_err(plain)
    }
}

/// Makes it an error, rather than a slow run, when the provider does not take every node.
pub(super) fn strict(builder: SessionBuilder) -> Result<SessionBuilder> {
    builder
        .with_config_entry("session.disable_cpu_ep_fallback", "1")
        .map_err(plain)
}

/// Collects what the session and its provider log, from `least` up.
pub(super) fn listening(
    builder: SessionBuilder,
    least: LogLevel,
) -> Result<(SessionBuilder, Messages)> {
    let messages = Messages::default();
    let sink = Arc::clone(&messages);
    let builder = builder
        .with_logger(Arc::new(
            move |level, _category: &str, _id: &str, place: &str, text: &str| {
                if let Ok(mut sink) = sink.lock() {
                    sink.push(Message {
                        level,
                        place: place.to_owned(),
                        text: text.to_owned(),
                    });
                }
            },
        ))
        .map_err(plain)?;
    Ok((builder.with_log_level(least).map_err(plain)?, messages))
}

/// An error of the crate in its own words, without the builder that some of them carry; a model that ONNX Runtime has no
/// code for is refused, whatever was being done with it.
pub(super) fn plain<R>(error: ort::Error<R>) -> anyhow::Error {
    refusal_or_error(
        error.code() == ort::ErrorCode::NotImplemented,
        error.message(),
    )
}

pub(super) fn refusal_or_error(not_implemented: bool, reason: &str) -> anyhow::Error {
    if exhausts_memory(reason) {
        return Refusal::because(JobStatus::Oom, reason);
    }
    if not_implemented || refuses(reason) {
        // Of a failed assertion the place in the sources comes first.
        let message = reason
            .rsplit_once(" was false. ")
            .map_or(reason, |(_, message)| message);
        return Refusal::because(JobStatus::Unsupported, message.trim());
    }
    anyhow::anyhow!("{reason}")
}

/// How ONNX Runtime's arena, the C++ runtime and NVIDIA's libraries say that memory is exhausted.
pub(super) fn exhausts_memory(reason: &str) -> bool {
    const WORDS: [&str; 6] = [
        "Failed to allocate memory",
        "bad_alloc",
        "CUDA failure 2:",
        "is smaller than requested bytes",
        "STATUS_ALLOC_FAILED",
        "OutOfMemory",
    ];
    WORDS.iter().any(|words| reason.contains(words))
}

/// Whether ONNX Runtime says of a model that it lacks what the model asks for, where the error's code does not.
fn refuses(reason: &str) -> bool {
    const WORDS: [&str; 7] = [
        // No provider has a kernel for it, not even the CPU's.
        " was false. Provider type for ",
        "Could not find an implementation for ",
        "Failed to find kernel for ",
        // Of an operator set that it does not know.
        " is not a registered function/op",
        "Unsupported model IR version: ",
        "ONNX Runtime only *guarantees* support for models stamped with",
        " are not supported. If you need support create a github issue",
    ];
    WORDS.iter().any(|words| reason.contains(words))
}

/// The library's own version: the crate does not tell it.
fn version(library: &Path) -> Result<String> {
    // SAFETY: the library is already loaded by the crate, so opening it again runs no initialiser and only counts.
    let handle = unsafe { libloading::Library::new(library) }?;
    // SAFETY: OrtGetApiBase is the C API's documented entry point, has this type, and never returns null.
    let text = unsafe {
        let base = handle
            .get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase\0")?(
        );
        CStr::from_ptr(((*base).GetVersionString)())
    };
    Ok(text.to_str()?.to_owned())
}
