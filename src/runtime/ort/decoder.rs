//! Decoding with a cache in ONNX Runtime. The present of a step is the past of the next as it is, without a copy on the CPU; on
//! another device it passes through host memory, where a session without bindings leaves its outputs.

use ::ort::session::{Session, SessionInputValue};
use ::ort::value::DynValue;
use anyhow::{Context, Result, bail, ensure};

use super::host::{CPU, plain};
use super::infer::{native, read};
use super::place::Bench;
use super::run::model_file;
use crate::runtime::JobStatus;
use crate::runtime::generation::{Decoder, Kept, Take};
use crate::runtime::refusal::Refusal;
use crate::runtime::tensors::Tensor;

pub(super) struct Cached {
    of: Decoder,
    session: Session,
    /// The cache in the order of `of.cache`.
    past: Vec<DynValue>,
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
        let model = model_file(&of.tree)?;
        let session = bench.session(&model)?;
        bench.placement(&session, &model)?;
        let takes: Vec<_> = session.inputs().iter().map(|input| input.name()).collect();
        let gives: Vec<_> = session
            .outputs()
            .iter()
            .map(|output| output.name())
            .collect();
        let is_told = takes == of.manifest.inputs && gives == of.manifest.outputs;
        ensure!(
            is_told,
            "it takes {takes:?} and gives {gives:?}, which its manifest does not say"
        );
        let mut opened = Self {
            of,
            session,
            past: Vec::new(),
        };
        opened.forget()?;
        Ok(opened)
    }
}

impl Take for Cached {
    fn forget(&mut self) -> Result<()> {
        let empty = self.of.empty()?;
        let port = |name: &str| {
            self.session
                .inputs()
                .iter()
                .find(|input| input.name() == name)
        };
        let value = |(kept, tensor): (&Kept, &Tensor)| {
            let input = port(&kept.input).context("BUG: names were compared")?;
            Ok(native(input.dtype(), tensor)
                .with_context(|| format!("input `{}`", kept.input))?
                .into_dyn())
        };
        self.past = self
            .of
            .cache
            .iter()
            .zip(&empty)
            .map(value)
            .collect::<Result<_>>()?;
        Ok(())
    }

    fn take(&mut self, ids: &Tensor) -> Result<Tensor> {
        let places: Vec<_> = self
            .of
            .manifest
            .inputs
            .iter()
            .map(|name| self.of.place(name))
            .collect();
        let at = places
            .iter()
            .position(Option::is_none)
            .context("BUG: one input is the ids")?;
        let ids = native(self.session.inputs()[at].dtype(), ids)
            .context("the ids")?
            .into_dyn();
        let inputs: Vec<SessionInputValue<'_>> = places
            .iter()
            .map(|place| SessionInputValue::from(place.map_or(&ids, |place| &self.past[place])))
            .collect();
        let outputs = self.session.run::<0>(inputs.as_slice()).map_err(plain)?;
        let mut values: Vec<DynValue> = outputs.into_iter().map(|(_, value)| value).collect();
        let scores = read(values.remove(0)).context("the scores")?;
        self.past = values;
        Ok(scores)
    }
}
