//! A row of a spec for a model of the user's own, made from what its files say.

mod onnx;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::base::text::last_line;
use crate::session::{Session, Settings, Tell, absolute, usage};
use crate::step::Requirement;
use crate::toolchain::EnvName;

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
        self.without_cuda(&[torch].into(), &Settings::default(), tell)?;
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
        let output = python.output().context("failed to start Python")?;
        if output.status.success() {
            return String::from_utf8(output.stdout).context("a row is UTF-8");
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = last_line(&said)
            .unwrap_or("Python printed nothing")
            .to_owned();
        usage!("no row was made: {why}")
    }
}

/// A name that no shell and no glob takes for something else.
fn name_of(source: &Path) -> String {
    let stem = source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    stem.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
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
    fn a_path_is_written_from_where_the_spec_lies() {
        let written =
            |folder: &str, path: &str| from_folder(Path::new(folder), Path::new(path)).unwrap();
        assert_eq!(written("specs", "my-bert"), Path::new("../my-bert"));
        assert_eq!(
            written("a/specs", "a/models/x.onnx"),
            Path::new("../models/x.onnx")
        );
        assert_eq!(written("/p/specs", "/q/x.onnx"), Path::new("/q/x.onnx"));
        assert_eq!(name_of(Path::new("models/My Model.onnx")), "my-model");
    }
}
