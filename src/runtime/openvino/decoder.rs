//! Decoding with a cache in OpenVINO: a model without a state, whose present is copied into the past of the next step.

use anyhow::{Context, Result};

use super::api::Port;
use super::{Session, Target, classified, options, ports};
use crate::runtime::JobStatus;
use crate::runtime::generation::{Decoder, Source, Take};
use crate::runtime::tensors::{Element, Tensor, Tensors};

pub(super) struct Cached {
    of: Decoder,
    session: Session,
    encoder: Option<Session>,
    /// The ports in the order of the decoder's inputs, each with what it takes.
    inputs: Vec<(Port, Source)>,
    /// The scores, and the cache in its order.
    outputs: Vec<Port>,
    past: Vec<Tensor>,
}

impl Cached {
    /// Err: the device does not take it, in OpenVINO's words. Memory that does not suffice is an error.
    pub(super) fn open(of: Decoder, target: &Target<'_>) -> Result<Result<Self, String>> {
        match Self::opened(of, target) {
            Ok(opened) => Ok(Ok(opened)),
            Err(error)
                if error.downcast_ref().and_then(options::status_of) == Some(JobStatus::Oom) =>
            {
                Err(classified(error, "failed to load the decoder with a cache"))
            }
            Err(error) => Ok(Err(format!(
                "{} does not take the decoder with a cache: {error:#}",
                target.params.device
            ))),
        }
    }

    fn opened(of: Decoder, target: &Target<'_>) -> Result<Self> {
        let mut encoder = match &of.encoder {
            Some(encoder) => {
                Some(target.load(&encoder.tree, &encoder.manifest, &encoder.inputs)?)
            }
            None => None,
        };
        let past = of.empty()?;
        let constants = constants(&of, encoder.as_mut())?;
        let rows = past
            .first()
            .and_then(|past| past.shape().first())
            .copied()
            .unwrap_or(1);
        let ids = Tensor::of(Element::Int64, &[rows, 1], &vec![0.0; rows])?;
        let tensor = |name: &String| {
            let tensor = match of.source(name) {
                Source::Ids => &ids,
                Source::Kept(place) => &past[place],
                Source::Constant(place) => &constants[place],
            };
            (name.clone(), tensor.clone())
        };
        let first: Tensors = of.manifest.inputs.iter().map(tensor).collect();
        let session = target.load(&of.tree, &of.manifest, &first)?;
        let port = |(index, name): (usize, &String)| {
            Ok((
                ports::input_port(&session.runner.compiled, &of.manifest, index)?,
                of.source(name),
            ))
        };
        let inputs = of
            .manifest
            .inputs
            .iter()
            .enumerate()
            .map(port)
            .collect::<Result<_>>()?;
        let outputs = (0..of.manifest.outputs.len())
            .map(|at| ports::output_port(&session.runner.compiled, &of.manifest, at));
        let outputs = outputs.collect::<Result<_>>()?;
        Ok(Self {
            session,
            encoder,
            inputs,
            outputs,
            past,
            of,
        })
    }
}

/// The decoder's constants, by an inference of its encoder where there is one.
fn constants(of: &Decoder, encoder: Option<&mut Session>) -> Result<Vec<Tensor>> {
    let encoded = match (&of.encoder, encoder) {
        (Some(model), Some(session)) => {
            let runner = &mut session.runner;
            let mut made = runner
                .infer(&model.manifest, &model.inputs)
                .context("the encoder")?;
            let outputs = model.manifest.outputs.iter();
            outputs.filter_map(|name| made.remove(name)).collect()
        }
        _ => Vec::new(),
    };
    of.constants(encoded, |_, tensor| Ok(tensor.clone()))
}

impl Take for Cached {
    fn begin(&mut self) -> Result<()> {
        self.past = self.of.empty()?;
        // A request keeps its tensors from one inference to the next.
        let constants = constants(&self.of, self.encoder.as_mut())?;
        for (port, source) in &self.inputs {
            if let Source::Constant(place) = *source {
                self.session
                    .runner
                    .request
                    .set_input(port, &constants[place])
                    .context("an input of the decoder")?;
            }
        }
        Ok(())
    }

    fn take(&mut self, ids: &Tensor) -> Result<Tensor> {
        let request = &mut self.session.runner.request;
        for (port, source) in &self.inputs {
            let tensor = match *source {
                Source::Ids => ids,
                Source::Kept(place) => &self.past[place],
                Source::Constant(_) => continue,
            };
            request
                .set_input(port, tensor)
                .context("an input of the decoder")?;
        }
        request.infer()?;
        let mut outputs = self
            .outputs
            .iter()
            .map(|port| request.output(port))
            .collect::<Result<Vec<_>>>()?;
        let scores = outputs.remove(0);
        self.past = outputs;
        Ok(scores)
    }
}
