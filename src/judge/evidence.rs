//! All that a verdict rests on: outputs and reference, and what distinguishes them from the outputs of something else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

use super::slices::{self, Side, Slices};
use super::tensor::Known;
use super::values::{Values as _, with_values};
use super::{Comparison, Control, Dropped, Generation, Numerics, Reference, Verdict};
use crate::runtime::generation::Decoded;
use crate::spec::Tolerance;

/// Safetensors files. What is None was not made.
pub struct Evidence<'a> {
    pub outputs: &'a Path,
    pub reference: &'a Path,
    /// What the run gave on the control's inputs.
    pub control_outputs: Option<&'a Path>,
    /// What the reference gives on them.
    pub control_reference: Option<&'a Path>,
    /// The reference without one layer, on the usual inputs; and which layer.
    pub dropped: Option<(&'a Path, &'a str)>,
    /// Names of the outputs whose whole numbers are tokens.
    pub tokens: &'a [String],
    /// The tokens that the reference generates, and those of the run, where it generated.
    pub generation: Option<(&'a Path, Option<&'a Path>)>,
    /// How the run decoded them.
    pub decoded: Option<Decoded>,
}

/// A file that cannot be read as tensors, which says nothing about the numbers in it.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("`{}` is not a safetensors file: {source}", path.display())]
    Format {
        path: PathBuf,
        source: safetensors::SafeTensorError,
    },
    #[error("`{}`: {reason}", path.display())]
    Generation { path: PathBuf, reason: String },
}

fn read(path: &Path) -> Result<Vec<u8>, EvidenceError> {
    std::fs::read(path).map_err(|source| EvidenceError::Read {
        path: path.to_owned(),
        source,
    })
}

fn tensors<'b>(path: &Path, bytes: &'b [u8]) -> Result<SafeTensors<'b>, EvidenceError> {
    SafeTensors::deserialize(bytes).map_err(|source| EvidenceError::Format {
        path: path.to_owned(),
        source,
    })
}

fn opened<'b>(
    path: Option<&Path>,
    bytes: Option<&'b [u8]>,
) -> Result<Option<SafeTensors<'b>>, EvidenceError> {
    let both = path.zip(bytes);
    both.map(|(path, bytes)| tensors(path, bytes)).transpose()
}

impl Evidence<'_> {
    /// The verdict, its figures, and, unless it is a pass, the reason. `label` says what the reference is.
    pub fn judge(
        &self,
        label: &str,
        tolerance: &Tolerance,
    ) -> Result<(Verdict, Numerics, Option<String>), EvidenceError> {
        let reference = read(self.reference)?;
        let reference = Reference::of(tensors(self.reference, &reference)?);
        let against = |reference: &Reference<'_>, path: &Path| {
            Ok::<_, EvidenceError>(Comparison::of(
                &tensors(path, &read(path)?)?,
                reference,
                tolerance,
                self.tokens,
            ))
        };
        let main = against(&reference, self.outputs)?;
        // Where no reference was made for the control, the run's own answer to it stands for one.
        let other = self.control_reference.or(self.control_outputs);
        let other = other.map(|path| against(&reference, path)).transpose()?;
        let on_control = self.control_outputs.zip(self.control_reference);
        let on_control = on_control
            .map(|(ours, theirs)| against(&Reference::of(tensors(theirs, &read(theirs)?)?), ours))
            .transpose()?;
        let dropped = self
            .dropped
            .map(|(path, layer)| Ok::<_, EvidenceError>((against(&reference, path)?, layer)));
        let dropped = dropped.transpose()?;
        let generation = self.generated(tolerance)?;
        let agrees = main.agrees() && on_control.as_ref().is_none_or(Comparison::agrees);
        let slices = if agrees {
            self.slices(&reference, tolerance)?
        } else {
            BTreeMap::new()
        };
        let of_outputs = decided(
            &main,
            on_control.as_ref(),
            other.as_ref(),
            dropped.as_ref(),
            &slices,
            tolerance,
        );
        let (verdict, reason) = with_generation(of_outputs, generation.as_ref());
        let numerics = Numerics {
            reference: label.to_owned(),
            tolerance: Some(*tolerance),
            looser: Vec::new(),
            max_abs: main.most(|t| t.max_abs),
            mae: main.most(|t| t.mae),
            cosine: main.least(|t| t.cosine),
            snr_db: main.least(|t| t.snr_db),
            tokens: main.least(|t| t.tokens),
            worst: main.most(|t| t.worst),
            passed: agrees
                && !slices
                    .values()
                    .flatten()
                    .any(|of_axis| !of_axis.wrong.is_empty())
                && generation
                    .as_ref()
                    .is_none_or(|generation| generation.wrong.is_none()),
            control: other.map(|other| Control {
                differs_by: other.most(|t| t.max_abs),
                worst: other.most(|t| t.worst),
                tokens: other.least(|t| t.tokens),
                undecided: other.agreeing,
                by: None,
                kept: Vec::new(),
                idle: Vec::new(),
                idle_rows: Vec::new(),
                max_abs: on_control.map(|on_control| on_control.most(|t| t.max_abs)),
            }),
            dropped: dropped.map(|(dropped, layer)| Dropped {
                layer: layer.to_owned(),
                differs_by: dropped.most(|t| t.max_abs),
                worst: dropped.most(|t| t.worst),
                tokens: dropped.least(|t| t.tokens),
            }),
            no_control: None,
            generation,
            slices,
            tensors: main.tensors,
        };
        Ok((verdict, numerics, reason))
    }

    /// The slices of floats that are judged by their own magnitude, for outputs that agree.
    fn slices(
        &self,
        reference: &Reference<'_>,
        tolerance: &Tolerance,
    ) -> Result<BTreeMap<String, Vec<Slices>>, EvidenceError> {
        let bytes = |path: Option<&Path>| path.map(read).transpose();
        let ours = read(self.outputs)?;
        let again = bytes(self.control_outputs)?;
        let other = bytes(self.control_reference)?;
        let ours = tensors(self.outputs, &ours)?;
        let again = opened(self.control_outputs, again.as_deref())?;
        let other = opened(self.control_reference, other.as_deref())?;
        let mut found = BTreeMap::new();
        for (name, tensor) in reference.tensors.iter() {
            let Some(known) = reference.known.get(name) else {
                continue;
            };
            let Some(ours) = alike(name, &tensor, Some(&ours)) else {
                continue;
            };
            let other = alike(name, &tensor, other.as_ref());
            let again = other.and(alike(name, &tensor, again.as_ref()));
            let small = with_values!(
                tensor.dtype(),
                [
                    ours = ours,
                    reference = tensor.data(),
                    other = other.unwrap_or(tensor.data()),
                    again = again.unwrap_or_default()
                ],
                {
                    let known_of_other = Known::of(other);
                    let mut sides = vec![Side {
                        ours,
                        reference,
                        known,
                        other,
                    }];
                    if again.len() == other.len() {
                        sides.push(Side {
                            ours: again,
                            reference: other,
                            known: &known_of_other,
                            other: reference,
                        });
                    }
                    slices::small(&sides, tensor.shape(), tolerance)
                }
            );
            let small = small.unwrap_or_default();
            if !small.is_empty() {
                found.insert(name.to_owned(), small);
            }
        }
        Ok(found)
    }

    fn generated(&self, tolerance: &Tolerance) -> Result<Option<Generation>, EvidenceError> {
        let Some((theirs, ours)) = self.generation else {
            return Ok(None);
        };
        let reference = read(theirs)?;
        let bytes = ours.map(read).transpose()?;
        let ours = ours
            .zip(bytes.as_deref())
            .map(|(path, bytes)| tensors(path, bytes))
            .transpose()?;
        let found = Generation::judge(
            ours.as_ref(),
            self.decoded.clone(),
            &tensors(theirs, &reference)?,
            tolerance,
        );
        found.map(Some).map_err(|reason| EvidenceError::Generation {
            path: theirs.to_owned(),
            reason,
        })
    }
}

/// The bytes of the tensor of this name, if it is of the same shape and type.
fn alike<'b>(
    name: &str,
    tensor: &TensorView<'_>,
    file: Option<&SafeTensors<'b>>,
) -> Option<&'b [u8]> {
    let found = file?.tensor(name).ok()?;
    let is_alike = found.shape() == tensor.shape() && found.dtype() == tensor.dtype();
    is_alike.then(|| found.data())
}

/// The verdict and, unless it is a pass, the reason.
type Decided = (Verdict, Option<String>);

/// What is wrong with the outputs comes first. Tokens that prove nothing take a pass back, for they were requested.
fn with_generation((verdict, reason): Decided, generation: Option<&Generation>) -> Decided {
    let of_text = |reason: &String| Some(format!("generated text: {reason}"));
    match (verdict, generation) {
        (
            Verdict::Pass | Verdict::Indecisive,
            Some(Generation {
                wrong: Some(wrong), ..
            }),
        ) => (Verdict::Numerics, of_text(wrong)),
        (
            Verdict::Pass,
            Some(Generation {
                undecided: Some(why),
                ..
            }),
        ) => (Verdict::Indecisive, of_text(why)),
        _ => (verdict, reason),
    }
}

fn decided(
    main: &Comparison,
    on_control: Option<&Comparison>,
    other: Option<&Comparison>,
    dropped: Option<&(Comparison, &str)>,
    slices: &BTreeMap<String, Vec<Slices>>,
    tolerance: &Tolerance,
) -> Decided {
    if let Some(reason) = main.summary() {
        return (Verdict::Numerics, Some(reason));
    }
    if let Some(reason) = on_control.and_then(Comparison::summary) {
        let reason = format!(
            "right on the inputs that it was made with, wrong on the control's inputs: {reason}"
        );
        return (Verdict::Numerics, Some(reason));
    }
    if let Some(which) = first_slices(slices, |of_axis| &of_axis.wrong) {
        let reason = format!(
            "wrong by the magnitude of its own values, which are small beside others: {which}"
        );
        return (Verdict::Numerics, Some(reason));
    }
    if !main.decides() {
        return (
            Verdict::Indecisive,
            Some("no output holds a computed value, so nothing was compared".to_owned()),
        );
    }
    if let Some(other) = other.filter(|other| other.agrees()) {
        return (
            Verdict::Indecisive,
            Some(too_loose("the outputs of another input", other, tolerance)),
        );
    }
    if let Some((dropped, layer)) = dropped.filter(|(dropped, _)| dropped.agrees()) {
        let whose = format!("the outputs without the weights of layer `{layer}`");
        return (
            Verdict::Indecisive,
            Some(too_loose(&whose, dropped, tolerance)),
        );
    }
    if let Some(which) = first_slices(slices, |of_axis| &of_axis.undecided) {
        let reason = format!("too small beside others to be told from a wrong answer: {which}");
        return (Verdict::Indecisive, Some(reason));
    }
    (Verdict::Pass, None)
}

/// The first slices of a kind, with their output, and how many axes have more.
fn first_slices(
    slices: &BTreeMap<String, Vec<Slices>>,
    kind: fn(&Slices) -> &[usize],
) -> Option<String> {
    let all = slices
        .iter()
        .flat_map(|(name, axes)| axes.iter().map(move |of_axis| (name, of_axis)));
    let summaries: Vec<_> = all
        .filter_map(|(name, of_axis)| Some(format!("`{name}`, {}", of_axis.summary(kind)?)))
        .collect();
    let (first, rest) = summaries.split_first()?;
    Some(if rest.is_empty() {
        first.clone()
    } else {
        format!("{first}; and {} more of this kind", rest.len())
    })
}

/// Both figures: by how much what is wrong differs, and what the tolerance allows.
fn too_loose(whose: &str, wrong: &Comparison, tolerance: &Tolerance) -> String {
    let off = wrong.most(|t| t.max_abs);
    let worst = wrong.most(|t| t.worst);
    if off == 0.0 {
        return format!("{whose} are the same, so a wrong run could not be told from a right one");
    }
    let Tolerance {
        atol,
        rtol,
        tokens: required,
        ..
    } = tolerance;
    let tokens = wrong.least(|t| t.tokens);
    let tokens = tokens
        .map(|share| format!("; {share:.6} of the tokens are the same, and {required} is asked"));
    format!(
        "{whose} differ by {off:.3e} at most, {worst:.2} of what the tolerance allows (atol {atol:e}, rtol {rtol:e}){}, \
         so they would pass as the answer",
        tokens.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_fail_what_passed_and_tokens_that_prove_nothing_take_a_pass_back() {
        let generation = |wrong: Option<&str>, undecided: Option<&str>| Generation {
            wrong: wrong.map(str::to_owned),
            undecided: undecided.map(str::to_owned),
            ..Generation::default()
        };
        let right = generation(None, None);
        let wrong = generation(Some("w"), Some("u"));
        let undecided = generation(None, Some("u"));
        let of_outputs = || Some("outputs".to_owned());
        for (verdict, reason, given, expected, why) in [
            (Verdict::Pass, None, &right, Verdict::Pass, None),
            (
                Verdict::Pass,
                None,
                &wrong,
                Verdict::Numerics,
                Some("generated text: w"),
            ),
            (
                Verdict::Indecisive,
                of_outputs(),
                &wrong,
                Verdict::Numerics,
                Some("generated text: w"),
            ),
            (
                Verdict::Numerics,
                of_outputs(),
                &wrong,
                Verdict::Numerics,
                Some("outputs"),
            ),
            (
                Verdict::Pass,
                None,
                &undecided,
                Verdict::Indecisive,
                Some("generated text: u"),
            ),
            (
                Verdict::Indecisive,
                of_outputs(),
                &right,
                Verdict::Indecisive,
                Some("outputs"),
            ),
        ] {
            let (found, reason) = with_generation((verdict, reason), Some(given));
            assert_eq!((found, reason.as_deref()), (expected, why));
        }
    }
}
