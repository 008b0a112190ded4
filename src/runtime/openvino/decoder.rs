//! Decoding with a cache in OpenVINO: a model without a state, whose present is copied into the past of the next step.

use anyhow::{Context, Result};

use super::api::Port;
use super::{Session, Target, classified, options, ports};
use crate::runtime::JobStatus;
use crate::runtime::generation::{Decoder, Take};
use crate::runtime::tensors::{Element, Tensor, Tensors};

pub(super) struct Cached {
    of: Decoder,
    session: Session,
    /// The ports in the order of the decoder's inputs, each with the tensor of the cache that it is.
    inputs: Vec<(Port, Option<usize>)>,
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
        let past = of.empty()?;
        let rows = past
            .first()
            .and_then(|past| past.shape().first())
            .copied()
            .unwrap_or(1);
        let ids = Tensor::of(Element::Int64, &[rows, 1], &vec![0.0; rows])?;
        let tensor = |name: &String| {
            (
                name.clone(),
                of.place(name).map_or(&ids, |place| &past[place]).clone(),
            )
        };
        let first: Tensors = of.manifest.inputs.iter().map(tensor).collect();
        let session = target.load(&of.tree, &of.manifest, &first)?;
        let port = |(index, name): (usize, &String)| {
            Ok((
                ports::input_port(&session.runner.compiled, &of.manifest, index)?,
                of.place(name),
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
            inputs,
            outputs,
            past,
            of,
        })
    }
}

impl Take for Cached {
    fn forget(&mut self) -> Result<()> {
        self.past = self.of.empty()?;
        Ok(())
    }

    fn take(&mut self, ids: &Tensor) -> Result<Tensor> {
        let request = &mut self.session.runner.request;
        for (port, place) in &self.inputs {
            let tensor = place.map_or(ids, |place| &self.past[place]);
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
