//! A row of a spec for a model of the user's own, made from what its files say.

#![expect(
    clippy::disallowed_methods,
    reason = "starts the Python that reads own model code"
)]

mod onnx;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::base::text::last_line;
use crate::session::{Session, Settings, Tell, absolute, usage};
use crate::step::Requirement;
use crate::toolchain::EnvName;

/// The beginning of a line of `orch_py.zoo` that is for the user, though a row was made.
const NOTE: &str = "note: ";

/// A model's row as it stands below `models:`, two spaces in.
pub struct Own {
    pub name: String,
    pub text: String,
}

impl Session {
    /// The row of an ONNX file, of a folder in `save_pretrained` layout, or of an id of the Hub, for a spec in the folder `specs`.
    /// Its name is the source's, unless there is another one.
    pub fn own(
        &mut self,
        source: &str,
        name: Option<&str>,
        specs: &Path,
        tell: Tell<'_>,
    ) -> anyhow::Result<Own> {
        let path = Path::new(source);
        let name = name.map_or_else(|| name_of(path), str::to_owned);
        let is_file = path
            .extension()
            .is_some_and(|extension| extension == "onnx");
        if is_file && !path.is_file() {
            usage!("there is no file `{source}`");
        }
        if !is_file && path.is_file() {
            usage!(
                "`{source}` is a file, but not one named `*.onnx`\n  hint: give that, or the folder of a checkpoint"
            );
        }
        if !is_file && !path.is_dir() && !is_id(source) {
            usage!(
                "`{source}` is neither a folder nor an ONNX file nor an id of the Hub\n  hint: an id names its owner \
                 too, such as `google-bert/bert-base-uncased`"
            );
        }
        let written = from_folder(specs, path)?.display().to_string();
        let text = match is_file {
            true => onnx::row(path, &name, &written)?,
            false => self.of_checkpoint(source, &name, &written, tell)?,
        };
        Ok(Own { name, text })
    }

    /// `orch_py.zoo` in the environment `torch`, which is installed if it is not there.
    pub fn zoo_python(&mut self, tell: Tell<'_>) -> anyhow::Result<Command> {
        let torch = Requirement::Env(EnvName::Torch);
        self.without_cuda(&[torch.into()].into(), &Settings::default(), tell)?;
        self.provision.ensure(torch, tell)?;
        let mut python = Command::new(self.provision.env(EnvName::Torch)?.python);
        python.args(["-m", "orch_py.zoo"]).stdin(Stdio::null());
        python
            .env("PYTHONPATH", self.provision.python_package()?)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        // What the library warns of concerns no row that is kept.
        python.env("TRANSFORMERS_VERBOSITY", "error");
        Ok(python)
    }

    fn of_checkpoint(
        &mut self,
        source: &str,
        name: &str,
        written: &str,
        tell: Tell<'_>,
    ) -> anyhow::Result<String> {
        let mut python = self.zoo_python(tell)?;
        python.args(["own", source, "--name", name, "--written", written]);
        tell(&format!(
            "reading the config, tokenizer and headers of `{source}`"
        ));
        let output = python.output().context("failed to start Python")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            stderr
                .lines()
                .filter_map(|line| line.strip_prefix(NOTE))
                .for_each(tell);
            return String::from_utf8(output.stdout).context("a row is UTF-8");
        }
        let why = last_line(&stderr)
            .unwrap_or("Python printed nothing")
            .to_owned();
        usage!("no row was made: {why}")
    }
}

/// Whether a text can be an id of the Hub: an owner and a name.
fn is_id(text: &str) -> bool {
    let is_name = |part: &str| {
        let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.chars().all(is_plain) && !part.starts_with('.')
    };
    text.split_once('/')
        .is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

/// The name by which people know the model, without what a shell or a glob takes for something else.
///
/// A file that is called `model.onnx` or `model_int8.onnx`, as exporters call it, is known by its folder, and a snapshot in the
/// Hub's cache by its repository.
fn name_of(source: &Path) -> String {
    let is_file = source
        .extension()
        .is_some_and(|extension| extension == "onnx");
    let name = if is_file {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        match stem.strip_prefix("model") {
            Some("") => name_of_folder(bfs::parent(source)),
            Some(rest) if rest.starts_with(['_', '-']) => {
                name_of_folder(bfs::parent(source)) + &rest.replacen('_', "-", 1)
            }
            _ => stem.into_owned(),
        }
    } else {
        name_of_folder(source)
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect()
}

/// The name of the nearest folder above that says something, the folder itself included.
fn name_of_folder(folder: &Path) -> String {
    // `.` and `..` have no name of their own.
    let whole = absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let whole = whole.canonicalize().unwrap_or(whole);
    let names = whole.iter().rev().map(|name| name.to_string_lossy());
    let is_commit = |name: &str| name.len() == 40 && name.chars().all(|c| c.is_ascii_hexdigit());
    let mut telling =
        names.filter(|name| !is_commit(name) && !["onnx", "snapshots"].contains(&&**name));
    let name = telling.next().unwrap_or_default();
    match name.strip_prefix("models--") {
        Some(id) => id.rsplit("--").next().unwrap_or(id).to_owned(),
        None => name.into_owned(),
    }
}

/// A path as a file in `folder` has it: relative, unless nothing leads there but the root.
fn from_folder(folder: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    let from = absolute(folder)?;
    let to = absolute(path)?;
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    if common <= 1 {
        return Ok(to);
    }
    let up = from.components().skip(common).map(|_| Path::new(".."));
    Ok(up
        .chain(
            to.components()
                .skip(common)
                .map(|part| Path::new(part.as_os_str())),
        )
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_hub_has_an_owner_and_a_name() {
        for id in ["google-bert/bert-base-uncased", "me/Tiny.1B", "a_b/c"] {
            assert!(is_id(id), "{id}");
        }
        for other in [
            "bert", "./bert", "../bert", "a/b/c", "/bert", "bert/", "a b/c", "",
        ] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn a_path_is_written_from_where_the_spec_lies() {
        let written =
            |folder: &str, path: &str| from_folder(Path::new(folder), Path::new(path)).unwrap();
        assert_eq!(written("specs", "my-bert"), Path::new("../my-bert"));
        assert_eq!(
            written("a/specs", "a/models/x.onnx"),
            Path::new("../models/x.onnx")
        );
        assert_eq!(written("/p/specs", "/q/x.onnx"), Path::new("/q/x.onnx"));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (source, name) in [
            ("models/My Model.onnx", "My-Model"),
            ("Qwen/Qwen2.5-0.5B", "Qwen2.5-0.5B"),
            ("/m/Llama-3.2-1B/", "Llama-3.2-1B"),
            ("/m/bert/onnx/model.onnx", "bert"),
            ("/m/bert/model_quantized.onnx", "bert-quantized"),
            (
                &format!("/hub/models--me--Tiny.1B/snapshots/{commit}"),
                "Tiny.1B",
            ),
        ] {
            assert_eq!(name_of(Path::new(source)), name, "{source}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            name_of(Path::new(".")),
            here.file_name().unwrap().to_str().unwrap()
        );
    }
}
