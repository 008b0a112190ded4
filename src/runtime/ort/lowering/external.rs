//! Weights beside the model's file, taken into it: a model that is handed over as bytes has no folder.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use anyhow::{Context, bail, ensure};

use crate::runtime::onnx_proto::{GraphProto, TensorProto};

/// Protobuf ends at 2 GiB.
const LIMIT: u64 = i32::MAX as u64;

/// Reads every external constant of the graph from `folder` into the graph; returns whether there was one.
pub(super) fn embed(proto: &mut GraphProto, folder: &Path) -> anyhow::Result<bool> {
    let mut total = 0u64;
    for tensor in proto
        .initializer
        .iter_mut()
        .filter(|tensor| !tensor.external_data.is_empty())
    {
        let name = tensor.name().to_owned();
        let raw = content(tensor, folder).with_context(|| format!("weight `{name}`"))?;
        total += raw.len() as u64;
        ensure!(
            total < LIMIT,
            "the model's weights exceed 2 GiB: the compiler takes it in one piece only up to that size"
        );
        tensor.raw_data = Some(raw);
        tensor.external_data.clear();
        tensor.data_location = None;
    }
    Ok(total > 0)
}

fn content(tensor: &TensorProto, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let mut location = None;
    let mut offset = 0u64;
    let mut length = None;
    for entry in &tensor.external_data {
        let value = entry.value().to_owned();
        match entry.key() {
            "location" => location = Some(value),
            "offset" => {
                offset = value
                    .parse()
                    .with_context(|| format!("bad offset `{value}`"))?
            }
            "length" => {
                length = Some(
                    value
                        .parse::<u64>()
                        .with_context(|| format!("bad length `{value}`"))?,
                )
            }
            _ => {}
        }
    }
    let location = location.context("no file is named")?;
    if !Path::new(&location)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        bail!("is kept outside the model's folder, in `{location}`");
    }
    let path = folder.join(&location);
    let failed = || format!("failed to read `{}`", path.display());
    let mut file = File::open(&path).with_context(failed)?;
    let end = file.metadata().with_context(failed)?.len();
    let length = length.unwrap_or_else(|| end.saturating_sub(offset));
    ensure!(
        offset.checked_add(length).is_some_and(|last| last <= end),
        "`{location}` is too short for it"
    );
    ensure!(length < LIMIT, "is larger than 2 GiB");
    file.seek(SeekFrom::Start(offset)).with_context(failed)?;
    let mut raw = vec![0; usize::try_from(length)?];
    file.read_exact(&mut raw).with_context(failed)?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::onnx_proto::StringStringEntryProto;

    fn kept(entries: &[(&str, &str)]) -> GraphProto {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some((*key).to_owned()),
            value: Some((*value).to_owned()),
        };
        let external_data = entries.iter().map(entry).collect();
        let tensor = TensorProto {
            external_data,
            data_location: Some(1),
            ..TensorProto::of("w", 1, &[], vec![])
        };
        GraphProto {
            initializer: vec![tensor],
            ..Default::default()
        }
    }

    #[test]
    fn a_weight_is_read_from_its_place() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.onnx.data"), [0, 1, 2, 3, 4, 5]).unwrap();
        let mut graph = kept(&[
            ("location", "model.onnx.data"),
            ("offset", "2"),
            ("length", "3"),
        ]);
        assert!(embed(&mut graph, folder.path()).unwrap());
        assert_eq!(
            graph.initializer[0].raw_data.as_deref(),
            Some(&[2u8, 3, 4][..])
        );
        assert_eq!(
            (
                graph.initializer[0].external_data.len(),
                graph.initializer[0].data_location
            ),
            (0, None)
        );
    }

    #[test]
    fn a_weight_elsewhere_or_cut_short_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("d"), [0; 4]).unwrap();
        let error = |entries: &[(&str, &str)]| {
            format!(
                "{:#}",
                embed(&mut kept(entries), folder.path()).unwrap_err()
            )
        };
        assert_eq!(
            error(&[("location", "../d")]),
            "weight `w`: is kept outside the model's folder, in `../d`"
        );
        assert_eq!(
            error(&[("location", "d"), ("offset", "2"), ("length", "3")]),
            "weight `w`: `d` is too short for it"
        );
        assert_eq!(error(&[("length", "3")]), "weight `w`: no file is named");
    }
}
