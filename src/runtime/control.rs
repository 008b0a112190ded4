//! Computes reference outputs of a ready model, for its inputs and for the control's.
//!
//! Which inputs are sizes, axes or indices is not known; other values of those would pose another problem. The shapes
//! of the outputs show it.

pub mod declared;
mod idle;
mod masks;

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::base::fs as bfs;
use crate::runtime::JobStatus;
use crate::runtime::manifest::Manifest;
use crate::runtime::refusal::Refusal;
use crate::runtime::tensors::{self, Element, Infer, Tensor, Tensors};
use declared::Declared;
use idle::Idle;

/// The runtime that computes them.
pub struct Witness {
    /// `onnxruntime cpu`
    pub name: &'static str,
    /// No other runtime takes such files.
    pub is_tested: bool,
}

const REFERENCE: &str = "reference.safetensors";
/// Files that [`reference()`] changes or leaves out, and does not copy as they are.
const CHANGED: [&str; 2] = ["manifest.json", tensors::CONTROL_INPUTS];

/// Copies the tree of a ready model and adds the control's inputs and outputs, and the reference if the user gave none.
/// `start` loads the model if anything must be computed. Gives facts for the record.
///
/// A reference that is other at a second run, holds NaN, or breaks what the file declares is refused here, once for all
/// targets.
pub fn reference<'m>(
    artefact: &Path,
    out: &Path,
    by: &Witness,
    declared: &Declared,
    start: impl FnOnce(&Manifest) -> anyhow::Result<Box<Infer<'m>>>,
) -> anyhow::Result<Map<String, Value>> {
    let mut manifest = Manifest::read(artefact)?;
    for name in bfs::files_below(artefact)?
        .iter()
        .filter(|name| !CHANGED.contains(&&***name))
    {
        bfs::copy_file(&artefact.join(name), &out.join(name))
            .with_context(|| format!("failed to copy {name} of the model"))?;
    }
    let is_given = artefact.join(REFERENCE).is_file();
    let second = match tensors::control_inputs(artefact)? {
        None if is_given => Err("the model came without a second input".to_owned()),
        other => match start(&manifest) {
            Ok(mut infer) => answered(artefact, out, other, (by, declared), &mut infer)?,
            // Another runtime may accept the model, and the user gave the expected outputs.
            Err(error) if is_given => {
                Err(format!("{} does not take the model: {error:#}", by.name))
            }
            Err(error) => return Err(error),
        },
    };
    match &second {
        Ok(Found { kept, idle }) => {
            let by = if by.is_tested {
                format!("{}, which is tested itself", by.name)
            } else {
                by.name.to_owned()
            };
            let Idle { inputs, rows } = idle;
            let control = json!({"by": is_given.then_some(by), "kept": kept, "idle": inputs, "idle_rows": rows});
            manifest.rest.insert("control".to_owned(), control);
        }
        Err(why) => {
            manifest.rest.entry("no_control").or_insert(json!(why));
        }
    }
    manifest.write(out)?;
    let facts =
        json!({"no_control": second.err(), "inputs": manifest.inputs, "outputs": manifest.outputs});
    let Value::Object(mut facts) = facts else {
        unreachable!()
    };
    facts.extend((!is_given).then(|| ("reference".to_owned(), json!(by.name))));
    Ok(facts)
}

/// What was found of the control.
struct Found {
    /// Inputs that it leaves as they are.
    kept: Vec<String>,
    /// What changes nothing.
    idle: Idle,
}

/// Gives what was found, or why there is no control. Moved values may be invalid for the model, such as an index beyond
/// its table; that is no error.
fn answered(
    artefact: &Path,
    out: &Path,
    other: Option<Tensors>,
    (by, declared): (&Witness, &Declared),
    infer: &mut Infer<'_>,
) -> anyhow::Result<Result<Found, String>> {
    let given = tensors::read(&artefact.join(tensors::INPUTS))?;
    let path = artefact.join(REFERENCE);
    let expected = path.is_file().then(|| tensors::read(&path)).transpose()?;
    let computed = match infer(&given) {
        Ok(outputs) => Some(outputs),
        // The user gave the expected outputs, and another runtime may compute them.
        Err(_) if expected.is_some() => None,
        Err(error) => return Err(error),
    };
    if let Some(outputs) = &computed {
        declared.axes_hold(&given, outputs)?;
        let again = infer(&given)?;
        steady(outputs, &again, declared)?;
    }
    let is_given = expected.is_some();
    let reference = expected
        .or(computed)
        .expect("BUG: a reference is given or computed");
    numbers(&reference, is_given)?;
    if !is_given {
        tensors::write(&out.join(REFERENCE), &reference)?;
    }
    let Some(other) = other else {
        return Ok(Err("the model came without a second input".to_owned()));
    };
    // Masks that hide nothing would be all that was ever seen of them.
    let padded = masks::padded(&other);
    let with_masks = padded.map(|padded| find(&given, &padded, &reference, infer));
    let with_masks = with_masks
        .and_then(Result::ok)
        .filter(|(_, outputs, _)| no_number(outputs).is_none());
    let found = with_masks.map_or_else(|| find(&given, &other, &reference, infer), Ok);
    let (inputs, outputs, kept) = match found {
        Ok(control) => control,
        Err(error) => {
            return Ok(Err(format!(
                "{} does not take the second input: {error:#}",
                by.name
            )));
        }
    };
    if let Some(nan) = no_number(&outputs) {
        return Ok(Err(format!("of the second input {nan}")));
    }
    tensors::write(&out.join("control-reference.safetensors"), &outputs)?;
    tensors::write(&out.join(tensors::CONTROL_INPUTS), &inputs)?;
    let idle = idle::find(&given, &inputs, infer)?;
    Ok(Ok(Found { kept, idle }))
}

/// An error where a second run on the same inputs gives something else.
fn steady(first: &Tensors, second: &Tensors, declared: &Declared) -> anyhow::Result<()> {
    let differing: Vec<_> = first
        .iter()
        .filter(|(name, one)| idle::moves(one, second.get(*name)))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = differing
        .iter()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let random: Vec<_> = declared
        .random
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let cause = if random.is_empty() {
        "the model draws random numbers or keeps a state".to_owned()
    } else {
        format!("{} draws random numbers", random.join(", "))
    };
    let (outputs, differ) = if names.len() == 1 {
        ("the output", "differs")
    } else {
        ("the outputs", "differ")
    };
    let message = format!(
        "{outputs} {} {differ} between two runs of the reference on the same inputs: {cause}, so no target can be compared with \
         it; export the model in evaluation mode, without the random part, or with inputs that switch it off (a noise scale of 0)",
        names.join(", ")
    );
    Err(Refusal::because(JobStatus::Indecisive, message))
}

/// An error where the reference holds NaN.
fn numbers(reference: &Tensors, is_given: bool) -> anyhow::Result<()> {
    let Some(nan) = no_number(reference) else {
        return Ok(());
    };
    let (whose, what) = if is_given {
        (
            "the expected outputs",
            "give numbers there, or leave the output out of `outputs`",
        )
    } else {
        (
            "the reference",
            "give inputs that no mask hides as a whole, or say with `expected` what is right",
        )
    };
    let message = format!("in {whose} {nan}, so no target can be compared with it; {what}");
    Err(Refusal::because(JobStatus::Indecisive, message))
}

/// The first output with NaN, and how many there are.
fn no_number(outputs: &Tensors) -> Option<String> {
    outputs.iter().find_map(|(name, tensor)| {
        let values = tensor.to_f64();
        let nans = values.iter().filter(|value| value.is_nan()).count();
        (nans > 0).then(|| {
            format!(
                "the output `{name}` holds {nans} NaN of {} values",
                values.len()
            )
        })
    })
}

/// Takes all `other` values if the outputs then have the shapes of the `reference`; else those floats that keep the
/// shapes, one after another. If there are none, it takes all, provided that the model accepts them: the shapes may be
/// what it computes. Gives inputs, outputs, and which inputs were left as given, although they could change.
fn find(
    given: &Tensors,
    other: &Tensors,
    reference: &Tensors,
    infer: &mut Infer<'_>,
) -> anyhow::Result<(Tensors, Tensors, Vec<String>)> {
    let all = infer(other);
    if !all
        .as_ref()
        .is_ok_and(|outputs| same_shapes(outputs, reference))
    {
        let mut found = None;
        let mut inputs = given.clone();
        let is_other = |(name, tensor): &(&String, &Tensor)| {
            is_floats(tensor) && given.get(*name) != Some(*tensor)
        };
        for (name, tensor) in other.iter().filter(is_other) {
            let mut tried = inputs.clone();
            tried.insert(name.clone(), tensor.clone());
            if let Some(outputs) = infer(&tried)
                .ok()
                .filter(|outputs| same_shapes(outputs, reference))
            {
                (inputs, found) = (tried, Some(outputs));
            }
        }
        if let Some(outputs) = found {
            let kept = other
                .iter()
                .filter(|(name, tensor)| inputs.get(*name) != Some(*tensor));
            let kept = kept.map(|(name, _)| name.clone()).collect();
            return Ok((inputs, outputs, kept));
        }
    }
    Ok((other.clone(), all?, vec![]))
}

fn same_shapes(outputs: &Tensors, reference: &Tensors) -> bool {
    reference.iter().all(|(name, tensor)| {
        outputs
            .get(name)
            .is_some_and(|output| output.shape() == tensor.shape())
    })
}

fn is_floats(tensor: &Tensor) -> bool {
    let is_float = matches!(
        tensor.element(),
        Element::Float64 | Element::Float32 | Element::Float16 | Element::Bfloat16
    );
    is_float && !tensor.shape().is_empty()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn floats(values: &[f64]) -> Tensor {
        Tensor::of(Element::Float32, &[values.len()], values).unwrap()
    }

    fn number(value: f64) -> Tensor {
        Tensor::of(Element::Int64, &[1], &[value]).unwrap()
    }

    fn named<const N: usize>(tensors: [(&str, Tensor); N]) -> Tensors {
        tensors
            .into_iter()
            .map(|(name, tensor)| (name.to_owned(), tensor))
            .collect()
    }

    /// `y` is `x`, `n` times as long as `n` and `scale` say. More than three times nobody takes.
    fn model(inputs: &Tensors) -> anyhow::Result<Tensors> {
        let times = inputs["n"].to_f64()[0] * inputs["scale"].to_f64()[0];
        if times > 3.0 {
            bail!("too long");
        }
        Ok(named([(
            "y",
            floats(&inputs["x"].to_f64().repeat(times as usize)),
        )]))
    }

    fn given() -> Tensors {
        named([
            ("x", floats(&[1.0, 2.0])),
            ("scale", floats(&[1.0])),
            ("n", number(2.0)),
        ])
    }

    #[test]
    fn a_reference_that_is_other_each_time_or_no_number_is_refused() {
        let one = named([("y", floats(&[1.0, 2.0]))]);
        let other = named([("y", floats(&[1.0, 2.5]))]);
        assert!(steady(&one, &one, &Declared::default()).is_ok());
        let error = steady(
            &one,
            &other,
            &Declared {
                random: ["Multinomial".to_owned()].into(),
                ..Declared::default()
            },
        );
        let error = error.unwrap_err();
        assert_eq!(Refusal::status_of(&error), JobStatus::Indecisive);
        let expected = "the output `y` differs between two runs of the reference on the same inputs: `Multinomial` draws random";
        assert!(error.to_string().starts_with(expected), "{error}");
        let nan = named([("y", floats(&[f64::NAN, 1.0]))]);
        let error = numbers(&nan, false).unwrap_err();
        assert_eq!(Refusal::status_of(&error), JobStatus::Indecisive);
        assert!(
            error
                .to_string()
                .starts_with("in the reference the output `y` holds 1 NaN of 2 values, so"),
            "{error}"
        );
    }

    fn found(scale: f64, n: f64) -> (Vec<String>, Vec<f64>) {
        let other = named([
            ("x", floats(&[2.0, 1.0])),
            ("scale", floats(&[scale])),
            ("n", number(n)),
        ]);
        let (inputs, outputs, kept) =
            find(&given(), &other, &model(&given()).unwrap(), &mut model).unwrap();
        assert_eq!(model(&inputs).unwrap(), outputs);
        (kept, outputs["y"].to_f64())
    }

    #[test]
    fn all_values_are_others_where_the_shapes_stay() {
        assert_eq!(found(1.0, 2.0), (vec![], vec![2.0, 1.0, 2.0, 1.0]));
        assert_eq!(found(2.0, 1.0), (vec![], vec![2.0, 1.0, 2.0, 1.0]));
    }

    #[test]
    fn what_decides_a_shape_or_is_refused_is_kept() {
        let kept = || vec!["n".to_owned(), "scale".to_owned()];
        assert_eq!(
            found(0.5, 3.0),
            (kept(), vec![2.0, 1.0, 2.0, 1.0]),
            "another shape"
        );
        assert_eq!(
            found(9.0, 3.0),
            (kept(), vec![2.0, 1.0, 2.0, 1.0]),
            "refused"
        );
    }

    #[test]
    fn shapes_that_the_model_computes_may_be_others_and_a_refusal_is_reported() {
        let many = named([
            ("x", floats(&[1.0, 2.0])),
            ("scale", floats(&[1.0])),
            ("n", number(3.0)),
        ]);
        let (_, outputs, kept) =
            find(&given(), &many, &model(&given()).unwrap(), &mut model).unwrap();
        assert_eq!((kept, outputs["y"].to_f64().len()), (vec![], 6));
        let refused = named([
            ("x", floats(&[1.0, 2.0])),
            ("scale", floats(&[1.0])),
            ("n", number(4.0)),
        ]);
        let error = find(&given(), &refused, &model(&given()).unwrap(), &mut model).unwrap_err();
        assert_eq!(error.to_string(), "too long");
    }
}
