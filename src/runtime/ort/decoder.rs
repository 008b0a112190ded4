//! Decoding with a cache in ONNX Runtime. The present of a step is the past of the next as it is, without a copy on the CPU; on
//! another device it passes through host memory, where a session without bindings leaves its outputs.

use std::path::Path;

use ::ort::session::{Session, SessionInputValue};
use ::ort::value::DynValue;
use anyhow::{Context, Result, bail, ensure};

use super::host::{CPU, plain};
use super::infer::{Feed, infer, native, read};
use super::place::Bench;
use super::run::model_file;
use crate::base::Bug;
use crate::runtime::JobStatus;
use crate::runtime::generation::{Decoder, Source, Take};
use crate::runtime::manifest::Manifest;
use crate::runtime::refusal::Refusal;
use crate::runtime::tensors::Tensor;

pub(super) struct Cached {
    of: Decoder,
    session: Session,
    encoder: Option<(Session, Feed)>,
    /// The cache in the order of `of.cache`.
    past: Vec<DynValue>,
    /// What the decoder takes in each step as it is, in the order of `of.constants`.
    constants: Vec<DynValue>,
}

impl Cached {
    /// Err: the provider does not take it as a whole. The CPU's takes all that the exporter tried on it, so there it is an
    /// error, as is memory that does not suffice.
    pub(super) fn open(of: Decoder, bench: &Bench<'_>) -> Result<Result<Self, String>> {
        let provider = bench.place.provider;
        match Self::opened(of, bench) {
            Ok(opened) => Ok(Ok(opened)),
            Err(why) if Refusal::status_of(&why) == JobStatus::Oom => {
                Err(why.context("failed to load the decoder with a cache"))
            }
            Err(why) if provider == CPU => {
                bail!("failed to load the decoder with a cache: {why:#}")
            }
            Err(why) => Ok(Err(format!(
                "{provider} does not take the decoder with a cache: {why:#}"
            ))),
        }
    }

    fn opened(of: Decoder, bench: &Bench<'_>) -> Result<Self> {
        let session = loaded(&of.tree, &of.manifest, bench)?;
        let encoder = match &of.encoder {
            Some(encoder) => {
                let session = loaded(&encoder.tree, &encoder.manifest, bench)?;
                let feed = Feed::new(&session, &encoder.inputs)?;
                Some((session, feed))
            }
            None => None,
        };
        let mut opened = Self {
            of,
            session,
            encoder,
            past: Vec::new(),
            constants: Vec::new(),
        };
        opened.begin()?;
        Ok(opened)
    }

    /// The value of ONNX Runtime's own that a tensor is as an input of the decoder.
    fn value(&self, name: &str, tensor: &Tensor) -> Result<DynValue> {
        let inputs = self.session.inputs();
        let port = inputs.iter().find(|input| input.name() == name);
        let port = port.context(Bug::new("names were compared"))?;
        let value = native(port.dtype(), tensor).with_context(|| format!("input `{name}`"))?;
        Ok(value.into_dyn())
    }
}

/// A session of a tree, which takes and gives what the manifest says.
fn loaded(tree: &Path, manifest: &Manifest, bench: &Bench<'_>) -> Result<Session> {
    let model = model_file(tree)?;
    let session = bench.session(&model)?;
    bench.placement(&session, &model)?;
    let takes: Vec<_> = session.inputs().iter().map(|input| input.name()).collect();
    let gives: Vec<_> = session
        .outputs()
        .iter()
        .map(|output| output.name())
        .collect();
    ensure!(
        takes == manifest.inputs && gives == manifest.outputs,
        "it takes {takes:?} and gives {gives:?}, which its manifest does not say"
    );
    Ok(session)
}

impl Take for Cached {
    fn begin(&mut self) -> Result<()> {
        let empty = self.of.empty()?;
        let pairs = self.of.cache.iter().zip(&empty);
        self.past = pairs
            .map(|(kept, tensor)| self.value(&kept.input, tensor))
            .collect::<Result<_>>()?;
        let encoded = match &mut self.encoder {
            Some((session, feed)) => infer(session, feed).context("the encoder")?,
            None => Vec::new(),
        };
        self.constants = self
            .of
            .constants(encoded, |name, tensor| self.value(name, tensor))?;
        Ok(())
    }

    fn take(&mut self, ids: &Tensor) -> Result<Tensor> {
        let inputs = self.of.manifest.inputs.iter();
        let sources: Vec<_> = inputs.map(|name| self.of.source(name)).collect();
        let at = sources
            .iter()
            .position(|source| *source == Source::Ids)
            .context(Bug::new("one input is the ids"))?;
        let ids = native(self.session.inputs()[at].dtype(), ids)
            .context("the ids")?
            .into_dyn();
        let value = |source: &Source| match *source {
            Source::Ids => &ids,
            Source::Kept(place) => &self.past[place],
            Source::Constant(place) => &self.constants[place],
        };
        let inputs: Vec<SessionInputValue<'_>> = sources
            .iter()
            .map(|source| SessionInputValue::from(value(source)))
            .collect();
        let outputs = self.session.run::<0>(inputs.as_slice()).map_err(plain)?;
        let mut values: Vec<DynValue> = outputs.into_iter().map(|(_, value)| value).collect();
        let scores = read(values.remove(0)).context("the scores")?;
        self.past = values;
        Ok(scores)
    }
}
