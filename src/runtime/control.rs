//! Computes reference outputs of a ready model, for its inputs and for the control's.
//!
//! Which inputs are sizes, axes or indices is not known; other values of those would pose another problem. The shapes
//! of the outputs show it.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::base::fs as bfs;
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::{self, Element, Infer, Tensor, Tensors};

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
pub fn reference<'m>(
    artefact: &Path,
    out: &Path,
    by: &Witness,
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
    let told = match tensors::control_inputs(artefact)? {
        None if is_given => Err("the model came without a second input".to_owned()),
        other => match start(&manifest) {
            Ok(mut infer) => answered(artefact, out, other, by, &mut infer)?,
            // Another runtime may accept the model, and the user gave the expected outputs.
            Err(error) if is_given => {
                Err(format!("{} does not take the model: {error:#}", by.name))
            }
            Err(error) => return Err(error),
        },
    };
    match &told {
        Ok(kept) => {
            let by = if by.is_tested {
                format!("{}, which is tested itself", by.name)
            } else {
                by.name.to_owned()
            };
            manifest.rest.insert(
                "control".to_owned(),
                json!({"by": is_given.then_some(by), "kept": kept}),
            );
        }
        Err(why) => {
            manifest.rest.entry("no_control").or_insert(json!(why));
        }
    }
    manifest.write(out)?;
    let facts =
        json!({"no_control": told.err(), "inputs": manifest.inputs, "outputs": manifest.outputs});
    let Value::Object(mut facts) = facts else {
        unreachable!()
    };
    facts.extend((!is_given).then(|| ("reference".to_owned(), json!(by.name))));
    Ok(facts)
}

/// Gives the inputs that the control leaves as they are, or why there is no control. Moved values may be invalid for
/// the model, such as an index beyond its table; that is no error.
fn answered(
    artefact: &Path,
    out: &Path,
    other: Option<Tensors>,
    by: &Witness,
    infer: &mut Infer<'_>,
) -> anyhow::Result<Result<Vec<String>, String>> {
    let given = tensors::read(&artefact.join(tensors::INPUTS))?;
    let reference = match artefact.join(REFERENCE) {
        path if path.is_file() => tensors::read(&path)?,
        _ => {
            let outputs = infer(&given)?;
            tensors::write(&out.join(REFERENCE), &outputs)?;
            outputs
        }
    };
    let Some(other) = other else {
        return Ok(Err("the model came without a second input".to_owned()));
    };
    let (inputs, outputs, kept) = match find(&given, &other, &reference, infer) {
        Ok(control) => control,
        Err(error) => {
            return Ok(Err(format!(
                "{} does not take the second input: {error:#}",
                by.name
            )));
        }
    };
    tensors::write(&out.join("control-reference.safetensors"), &outputs)?;
    tensors::write(&out.join(tensors::CONTROL_INPUTS), &inputs)?;
    Ok(Ok(kept))
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
    fn shapes_that_the_model_computes_may_be_others_and_a_refusal_is_told() {
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
