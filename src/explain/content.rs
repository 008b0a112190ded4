//! Two versions of a file → where they first differ, in the terms of their format. Knows nothing of steps and stores.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::iter;
use std::path::Path;

use serde_json::Value;

use crate::base::text::shortened;

/// Larger texts and headers are compared as bytes: their first difference is looked for, not shown.
const PARSED: u64 = 16 << 20;
/// Values are quoted up to here.
const QUOTED: usize = 60;

/// `config.num_layers: 2 => 3`, `line 7: "a" => "b"`, `tensor weight: bytes differ`, `byte 1024 is the first that differs`.
/// None if they are the same.
pub(super) fn first_difference(name: &str, old: &Path, new: &Path) -> io::Result<Option<String>> {
    let extension = name.rsplit('.').next().unwrap_or_default();
    if extension == "safetensors"
        && let Some(difference) = safetensors(old, new)?
    {
        return Ok(Some(difference));
    }
    let small = |path: &Path| path.metadata().map(|meta| meta.len() <= PARSED);
    if extension != "safetensors" && small(old)? && small(new)? {
        let old = std::fs::read(old)?;
        let new = std::fs::read(new)?;
        if let (Ok(old), Ok(new)) = (std::str::from_utf8(&old), std::str::from_utf8(&new)) {
            return Ok(data(extension, old, new).or_else(|| first_line(old, new)));
        }
    }
    Ok(first_byte(old, new, 0)?.map(|at| format!("byte {at} is the first that differs")))
}

/// JSON and YAML. None too if only their writing differs, which the first differing line shows.
fn data(extension: &str, old: &str, new: &str) -> Option<String> {
    let parse = |text: &str| match extension {
        "json" => serde_json::from_str(text).ok(),
        "yaml" | "yml" => crate::spec::yaml_data(text),
        _ => None,
    };
    first_key("", Some(&parse(old)?), Some(&parse(new)?))
}

/// The first leaf that differs, in the order of the newer version.
fn first_key(path: &str, old: Option<&Value>, new: Option<&Value>) -> Option<String> {
    match (old, new) {
        (old, new) if old == new => None,
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let key = new
                .keys()
                .chain(old.keys())
                .find(|key| old.get(*key) != new.get(*key))?;
            let dot = if path.is_empty() { "" } else { "." };
            first_key(&format!("{path}{dot}{key}"), old.get(key), new.get(key))
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            let at = (0..old.len().max(new.len())).find(|at| old.get(*at) != new.get(*at))?;
            first_key(&format!("{path}[{at}]"), old.get(at), new.get(at))
        }
        (old, new) => {
            let shown = |value: Option<&Value>| {
                value.map_or("absent".to_owned(), |value| {
                    shortened(&value.to_string(), QUOTED).into_owned()
                })
            };
            let at = if path.is_empty() { "the value" } else { path };
            Some(format!("{at}: {} => {}", shown(old), shown(new)))
        }
    }
}

fn first_line(old: &str, new: &str) -> Option<String> {
    let mut olds = old.split('\n');
    let mut news = new.split('\n');
    let pairs =
        iter::from_fn(|| Some((olds.next(), news.next())).filter(|pair| *pair != (None, None)));
    let (number, (old, new)) = (1..).zip(pairs).find(|(_, (old, new))| old != new)?;
    let shown = |line: Option<&str>| {
        line.map_or("absent".to_owned(), |line| {
            format!("{:?}", shortened(line, QUOTED))
        })
    };
    Some(format!("line {number}: {} => {}", shown(old), shown(new)))
}

/// The header's first difference, else the first tensor whose bytes differ. None if either is no such file.
fn safetensors(old: &Path, new: &Path) -> io::Result<Option<String>> {
    let (Some((old_header, old_data)), Some((new_header, new_data))) = (header(old)?, header(new)?)
    else {
        return Ok(None);
    };
    // Offsets move with every size before them, so they are shown only when nothing else differs.
    if let Some(difference) = first_key("", Some(&bare(&old_header)), Some(&bare(&new_header))) {
        return Ok(Some(format!("header: {difference}")));
    }
    if old_header != new_header || old_data != new_data {
        return Ok(Some("header: the same tensors lie at other places".into()));
    }
    let Some(at) = first_byte(old, new, old_data)? else {
        return Ok(None);
    };
    let at = at - old_data;
    let holds = |entry: &Value| {
        let offset = |n: usize| entry["data_offsets"][n].as_u64();
        offset(0)
            .zip(offset(1))
            .is_some_and(|(from, until)| from <= at && at < until)
    };
    let tensor = old_header
        .as_object()
        .into_iter()
        .flatten()
        .find(|(_, entry)| holds(entry));
    Ok(tensor.map(|(name, entry)| {
        let dtype = entry["dtype"].as_str().unwrap_or("?");
        let shape = &entry["shape"];
        format!("header: the same; `{name}` ({dtype} {shape}) holds other numbers")
    }))
}

/// The header and where the data behind it begin.
fn header(path: &Path) -> io::Result<Option<(Value, u64)>> {
    let mut file = File::open(path)?;
    let mut read = |len: u64| {
        let mut bytes = vec![0; len as usize];
        file.read_exact(&mut bytes).is_ok().then_some(bytes)
    };
    let len = read(8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let text = len.filter(|len| *len <= PARSED).and_then(read);
    let header = text
        .and_then(|text| serde_json::from_slice(&text).ok())
        .filter(Value::is_object);
    Ok(header.zip(len.map(|len| 8 + len)))
}

fn bare(header: &Value) -> Value {
    let mut header = header.clone();
    for entry in header
        .as_object_mut()
        .into_iter()
        .flat_map(|map| map.values_mut())
        .filter_map(Value::as_object_mut)
    {
        entry.remove("data_offsets");
    }
    header
}

/// Counted from 0.
fn first_byte(old: &Path, new: &Path, from: u64) -> io::Result<Option<u64>> {
    const CHUNK: usize = 1 << 20;
    let open = |path: &Path| -> io::Result<_> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(file)
    };
    let mut old = open(old)?;
    let mut new = open(new)?;
    let mut a = Vec::with_capacity(CHUNK);
    let mut b = Vec::with_capacity(CHUNK);
    let mut at = from;
    loop {
        a.clear();
        b.clear();
        old.by_ref().take(CHUNK as u64).read_to_end(&mut a)?;
        new.by_ref().take(CHUNK as u64).read_to_end(&mut b)?;
        if a != b {
            let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            return Ok(Some(at + same as u64));
        }
        if a.is_empty() {
            return Ok(None);
        }
        at += a.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(name: &str, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("old"), old).unwrap();
        std::fs::write(dir.path().join("new"), new).unwrap();
        first_difference(name, &dir.path().join("old"), &dir.path().join("new")).unwrap()
    }

    fn tensors(header: &str, data: &[u8]) -> Vec<u8> {
        [
            &(header.len() as u64).to_le_bytes()[..],
            header.as_bytes(),
            data,
        ]
        .concat()
    }

    #[test]
    fn the_first_difference_in_the_terms_of_each_format() {
        for (name, old, new, expected) in [
            (
                "config.json",
                r#"{"a":1,"b":{"c":[1,2]}}"#,
                r#"{"a":1,"b":{"c":[1,3]}}"#,
                "b.c[1]: 2 => 3",
            ),
            (
                "x.json",
                r#"{"a":1}"#,
                r#"{"a":1,"b":"x"}"#,
                r#"b: absent => "x""#,
            ),
            (
                "x.json",
                r#"{"a":1,"b":"x"}"#,
                r#"{"a":1}"#,
                r#"b: "x" => absent"#,
            ),
            (
                "x.json",
                r#"{"a":1}"#,
                r#"{ "a":1}"#,
                r#"line 1: "{\"a\":1}" => "{ \"a\":1}""#,
            ),
            ("x.json", "{", "{}", r#"line 1: "{" => "{}""#),
            ("x.yaml", "a: {b: 1}\n", "a:\n  b: 2\n", "a.b: 1 => 2"),
            ("x.py", "a\nb\n", "a\nc\n", r#"line 2: "b" => "c""#),
            ("x.txt", "a\n", "a\nc", r#"line 2: "" => "c""#),
            ("x.txt", "a", "a\nb", r#"line 2: absent => "b""#),
        ] {
            assert_eq!(difference(name, old, new).unwrap(), expected);
        }
        let difference_of_bytes = difference("model.onnx", [0xff, 1, 2], [0xff, 1, 3, 4]).unwrap();
        assert_eq!(difference_of_bytes, "byte 2 is the first that differs");
        assert_eq!(difference("model.onnx", [0xff, 1], [0xff, 1]), None);
    }

    #[test]
    fn a_safetensors_file_is_compared_by_its_header_first_and_then_its_tensor() {
        let header = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}"#;
        let old = tensors(header, &[1, 2, 3]);
        let wider = tensors(&header.replace("[2],", "[1,2],"), &[1, 2, 3]);
        let other = tensors(header, &[1, 2, 4]);
        for (old, new, expected) in [
            (&*old, &*wider, Some("header: a.shape[0]: 2 => 1")),
            (
                &*old,
                &*other,
                Some("header: the same; `b` (U8 [1]) holds other numbers"),
            ),
            (&*old, &*old, None),
            (b"no", b"yes", Some("byte 0 is the first that differs")),
        ] {
            assert_eq!(difference("x.safetensors", old, new).as_deref(), expected);
        }
    }
}
