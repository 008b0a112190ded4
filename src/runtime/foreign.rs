//! Tensors that users bring: `.npz`, `.safetensors`, or a folder of ONNX's `input_0.pb`, `output_0.pb`, ….

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

use crate::runtime::onnx_file;
use crate::runtime::tensors::{self, Element, Tensor, Tensors};

/// Reads named tensors. `prefix` is `input` or `output` and picks the files of a folder; `names` gives the graph's names
/// in order, for tensors that carry none of their own.
pub fn read(path: &Path, prefix: &str, names: &[String]) -> anyhow::Result<Tensors> {
    if path.is_dir() {
        return read_folder(path, prefix, names);
    }
    match path.extension().and_then(|e| e.to_str()) {
        Some("safetensors") => tensors::read(path),
        Some("npz") => read_npz(path),
        _ => bail!(
            "`{}` is none of .npz, .safetensors, or a folder of {prefix}_*.pb",
            path.display()
        ),
    }
}

/// Whether a folder of tensors has none of this kind: a model without inputs comes with such a one.
pub fn is_without(path: &Path, prefix: &str) -> bool {
    path.is_dir() && !path.join(format!("{prefix}_0.pb")).exists()
}

fn read_folder(dir: &Path, prefix: &str, names: &[String]) -> anyhow::Result<Tensors> {
    let mut found = Tensors::new();
    for index in 0.. {
        let path = dir.join(format!("{prefix}_{index}.pb"));
        if !path.is_file() {
            break;
        }
        let (name, tensor) = onnx_file::read_pb(&path)?;
        let name = match names.get(index) {
            Some(positional) if name.is_empty() || !names.contains(&name) => positional.clone(),
            _ => name,
        };
        found.insert(name, tensor);
    }
    if found.is_empty() {
        bail!("`{}` holds no {prefix}_0.pb", dir.display());
    }
    Ok(found)
}

fn read_npz(path: &Path) -> anyhow::Result<Tensors> {
    let failed = || format!("failed to read `{}`", path.display());
    let mut archive =
        zip::ZipArchive::new(File::open(path).with_context(failed)?).with_context(failed)?;
    let mut found = Tensors::new();
    for index in 0..archive.len() {
        let entry = archive.by_index(index).with_context(failed)?;
        let file = entry.name().with_context(failed)?.into_owned();
        let Some(name) = npyz::npz::array_name_from_file_name(&file).map(str::to_owned) else {
            continue;
        };
        let tensor = npy_tensor(entry).with_context(|| {
            format!("failed to read the array `{name}` of `{}`", path.display())
        })?;
        found.insert(name, tensor);
    }
    if found.is_empty() {
        bail!("`{}` holds no array", path.display());
    }
    Ok(found)
}

fn npy_tensor(mut file: impl Read) -> anyhow::Result<Tensor> {
    let header = npyz::NpyHeader::from_reader(&mut file)?;
    if header.order() == npyz::Order::Fortran && header.shape().len() > 1 {
        bail!("it is in Fortran order; save it with numpy.ascontiguousarray");
    }
    let shape: Vec<usize> = header
        .shape()
        .iter()
        .map(|dim| usize::try_from(*dim))
        .collect::<Result<_, _>>()?;
    let npyz::DType::Plain(dtype) = header.dtype() else {
        bail!("it is a structured array")
    };
    let text = dtype.to_string();
    let element = match text.trim_start_matches(['<', '|', '>', '=']) {
        _ if text.starts_with('>') => bail!("its type {text} is big-endian"),
        "V2" => bail!(
            "its type `V2` may be bfloat16, which .npz files do not tell; save it as .safetensors"
        ),
        code => Element::ALL
            .into_iter()
            .find(|element| numpy_code(*element) == code)
            .with_context(|| {
                format!(
                    "its type `{code}` is none of f8, f4, f2, i8, i4, i2, i1, u8, u4, u2, u1, b1"
                )
            })?,
    };
    let declared = shape
        .iter()
        .try_fold(element.size(), |size, dim| size.checked_mul(*dim))
        .context("its shape is too large")?;
    // One byte more than it declares is found wrong by `Tensor::new`; what an archive unpacks to besides is not read.
    let mut bytes = Vec::new();
    file.take((declared as u64).saturating_add(1))
        .read_to_end(&mut bytes)?;
    Tensor::new(element, shape, bytes)
}

/// `f4` for `float32`: the kind and the bytes.
fn numpy_code(element: Element) -> String {
    format!("{}{}", &element.word()[..1], element.size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use npyz::WriterBuilder;
    use std::io::Write;

    /// An array as numpy writes it.
    fn npy<T: npyz::AutoSerialize + npyz::Serialize>(
        shape: &[u64],
        values: impl IntoIterator<Item = T>,
    ) -> Vec<u8> {
        let mut npy = Vec::new();
        let mut array = npyz::WriteOptions::new()
            .default_dtype()
            .shape(shape)
            .writer(&mut npy)
            .begin_nd()
            .unwrap();
        array.extend(values).unwrap();
        array.finish().unwrap();
        npy
    }

    #[test]
    fn an_npz_file_gives_its_arrays_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npz");
        let npy = npy(&[1, 2], [1.5_f32, -2.0]);
        let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
        archive
            .start_file("logits.npy", zip::write::SimpleFileOptions::default())
            .unwrap();
        archive.write_all(&npy).unwrap();
        archive.finish().unwrap();
        let found = read(&path, "output", &[]).unwrap();
        assert_eq!(found["logits"].shape(), [1, 2]);
        assert_eq!(found["logits"].to_f64(), [1.5, -2.0]);
    }

    #[test]
    fn every_type_of_numpy_s_keeps_its_width() {
        fn one<T: npyz::AutoSerialize + npyz::Serialize>(value: T) -> Tensor {
            npy_tensor(npy(&[1], [value]).as_slice()).unwrap()
        }
        let found = [
            one(2f64),
            one(2f32),
            one(2i64),
            one(2i32),
            one(2i16),
            one(2i8),
            one(2u64),
            one(2u32),
            one(2u16),
        ];
        let types: Vec<_> = found.iter().map(|tensor| tensor.element().word()).collect();
        let expected = [
            "float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
        ];
        assert_eq!(types, expected);
        assert!(found.iter().all(|tensor| tensor.to_f64() == [2.0]));
        assert_eq!(one(half::f16::from_f32(0.5)).to_f64(), [0.5]);
    }

    #[test]
    fn a_folder_without_tensors_says_what_it_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path(), "input", &[]).unwrap_err().to_string();
        assert!(error.ends_with("holds no input_0.pb"), "{error}");
    }
}
