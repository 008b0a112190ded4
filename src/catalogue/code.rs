//! What the implementation of a kind is made of, and its digest: editing it reruns the steps that it performs, and
//! nothing else does.
//!
//! Sources in Rust and Python count by their tokens (`build/tokens.rs`), wherever their files lie: comments, layout and
//! moves change no digest. Tests are left out, and so are the compiler and the crates below the named ones: they compute
//! nothing by themselves that an output shows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, OnceLock};

use crate::base::Digest;
use crate::base::fs::embedded;
use crate::{template, toolchain};

/// The token streams of all sources, which the build script wrote: `path`, U+001F, tokens, U+001E.
const TOKENS: &str = include_str!(concat!(env!("OUT_DIR"), "/tokens.txt"));
const LOCK: &str = "Cargo.lock";
const CRATES: &str = include_str!("../../Cargo.lock");

/// One part of an implementation.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Rust sources whose path below `src/` begins so.
    Rust(&'static str),
    /// An op of the Python package, with the server that calls it and every module of the package that these import.
    Python(&'static str),
    /// One file of the Python package, whatever it imports.
    PythonFile(&'static str),
    /// Templates whose path below `templates/` begins so.
    Templates(&'static str),
    /// A crate at its locked version.
    Crate(&'static str),
}

/// Parts by their kinds: `Rust "step/run.rs", "runtime/"; Crate "half"`.
macro_rules! parts {
    ($($kind:ident $($path:expr),+);+) => { &[$($($crate::catalogue::Part::$kind($path)),+),+] };
}
pub(crate) use parts;

/// What every worker in Rust is made of, whatever it runs.
pub const WORKER: &[Part] = parts!(
    Rust "runtime/mod.rs", "runtime/cpu.rs", "runtime/serve.rs", "runtime/generation", "runtime/loops/",
        "runtime/manifest.rs", "runtime/measure.rs", "runtime/refusal.rs", "runtime/tensors.rs";
    Crate "half", "safetensors"
);

/// What whatever runs a model must do.
pub(super) const RUN: &[Part] = parts!(Rust "step/run.rs", "catalogue/run.rs"; Crate "safetensors");

/// What whatever converts one must do.
pub(super) const CONVERT: &[Part] = parts!(Rust "step/convert.rs", "catalogue/artefact.rs");

/// The parts of one implementation, in groups that several may share. Their digest is made once.
#[derive(Debug)]
pub struct Code {
    parts: &'static [&'static [Part]],
    digest: OnceLock<Digest>,
}

impl Code {
    pub const fn of(parts: &'static [&'static [Part]]) -> Self {
        Self {
            parts,
            digest: OnceLock::new(),
        }
    }

    pub fn digest(&self) -> Digest {
        *self
            .digest
            .get_or_init(|| digest(self.parts, Sources::embedded()))
    }

    /// Paths of the sources in it.
    pub fn files(&self) -> BTreeSet<String> {
        let parts = self.parts.iter().copied().flatten();
        parts
            .flat_map(|part| Sources::embedded().of(part))
            .collect()
    }

    /// These parts, taken from other sources.
    pub fn in_sources(&self, sources: &Sources) -> Self {
        Self {
            parts: self.parts,
            digest: digest(self.parts, sources).into(),
        }
    }
}

/// All sources that a digest can be made of, by path below the root of the repository.
#[derive(Debug, Clone)]
pub struct Sources(BTreeMap<String, Source>);

/// One source: its text where a reader needs it, and what its digest is made of.
#[derive(Debug, Clone)]
struct Source {
    text: Cow<'static, str>,
    counted: Cow<'static, str>,
}

impl Source {
    /// A source of which each character counts.
    fn whole(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            counted: Cow::Borrowed(text),
        }
    }
}

impl Sources {
    /// Those that this binary was made of.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<Sources> = LazyLock::new(|| {
            let mut files = BTreeMap::new();
            for (path, tokens) in TOKENS
                .split_terminator('\u{1e}')
                .filter_map(|record| record.split_once('\u{1f}'))
            {
                files.insert(path.to_owned(), Source::whole(tokens));
            }
            for file in embedded(&toolchain::PACKAGE) {
                let path = format!("python/orch_py/{}", file.path().display());
                if let (Some(source), Some(text)) = (files.get_mut(&path), file.contents_utf8()) {
                    source.text = Cow::Borrowed(text);
                }
            }
            for name in template::names() {
                let text = template::source(name).unwrap_or_default();
                files.insert(format!("templates/{name}"), Source::whole(text));
            }
            files.insert(LOCK.into(), Source::whole(CRATES));
            Sources(files)
        });
        &EMBEDDED
    }

    /// These sources, with another content for one file.
    pub fn with(&self, path: &str, content: String) -> Self {
        let mut files = self.0.clone();
        let changed = Source {
            text: Cow::Owned(content.clone()),
            counted: Cow::Owned(content),
        };
        files.insert(path.into(), changed);
        Self(files)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        Some(&self.0.get(path)?.text)
    }

    fn of(&self, part: &Part) -> BTreeSet<String> {
        match part {
            Part::Rust(prefix) => self.beginning(format!("src/{prefix}")),
            Part::Templates(prefix) => self.beginning(format!("templates/{prefix}")),
            Part::Python(op) => self.python(op),
            Part::PythonFile(name) => self.beginning(format!("python/orch_py/{name}")),
            Part::Crate(_) => [LOCK.to_owned()].into(),
        }
    }

    fn beginning(&self, prefix: String) -> BTreeSet<String> {
        let paths = self.0.range(prefix.clone()..).map(|(path, _)| path);
        paths
            .take_while(|path| path.starts_with(&prefix))
            .cloned()
            .collect()
    }

    /// Paths of an op's modules: what is imported by name, and by the modules so found.
    fn python(&self, op: &str) -> BTreeSet<String> {
        let mut open = vec![
            String::new(),
            "worker".to_owned(),
            "worker.server".to_owned(),
            "ops".to_owned(),
            format!("ops.{op}"),
        ];
        let mut found = BTreeSet::new();
        while let Some(module) = open.pop() {
            let Some(path) = self.python_module(&module) else {
                continue;
            };
            let text = self.text(&path).unwrap_or_default();
            if found.insert(path.clone()) {
                open.extend(imports(text));
            }
        }
        found
    }

    /// The path of a module of the package by its dotted name; that of a package is its `__init__.py`. None for a name that
    /// is no module.
    fn python_module(&self, module: &str) -> Option<String> {
        let below = module.replace('.', "/");
        let file = format!("python/orch_py/{below}.py");
        let package = format!("python/orch_py/{below}/__init__.py").replace("//", "/");
        [file, package]
            .into_iter()
            .find(|path| self.0.contains_key(path))
    }
}

/// Modules of the package that a Python source may import: `from orch_py import a, b` and `from orch_py.a import x`.
/// A name that is no module has no file and is passed over.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // Names in brackets may stand on lines of their own.
    for statement in text
        .split("\nfrom ")
        .skip(1)
        .chain(text.split("    from ").skip(1))
    {
        let Some(rest) = statement.strip_prefix("orch_py") else {
            continue;
        };
        let Some((module, names)) = rest.split_once(" import ") else {
            continue;
        };
        let module = module.trim_start_matches('.');
        let names = match names.strip_prefix('(') {
            Some(open) => open.split(')').next(),
            None => names.lines().next(),
        };
        for name in names
            .unwrap_or_default()
            .split(',')
            .filter_map(|name| name.split_whitespace().next())
        {
            found.insert(if module.is_empty() {
                name.to_owned()
            } else {
                format!("{module}.{name}")
            });
        }
        if !module.is_empty() {
            // The packages that a module lies in are imported with it.
            found.extend(
                module
                    .match_indices('.')
                    .map(|(at, _)| module[..at].to_owned()),
            );
            found.insert(module.to_owned());
        }
    }
    found
}

fn digest(parts: &[&[Part]], sources: &Sources) -> Digest {
    // A set, because parts may overlap.
    let mut lines = BTreeSet::new();
    for part in parts.iter().copied().flatten() {
        if let Part::Crate(name) = part {
            let locked = locked_crate(sources.text(LOCK).unwrap_or_default(), name);
            lines.insert(locked.unwrap_or_else(|| panic!("BUG: {LOCK} has no crate `{name}`")));
            continue;
        }
        let paths = sources.of(part);
        assert!(!paths.is_empty(), "BUG: {part:?} names no source");
        lines.extend(
            paths
                .into_iter()
                .map(|path| Digest::of(sources.0[&path].counted.as_bytes()).to_string()),
        );
    }
    Digest::of(Vec::from_iter(lines).join("\n").as_bytes())
}

/// `name version checksum` of a crate in Cargo's lock.
fn locked_crate(lock: &str, name: &str) -> Option<String> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("\nname = \"{name}\"\n")))?;
    let field = |key: &str| {
        let line = entry
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    Some(format!("{name} {} {}", field("version"), field("checksum")))
}

#[cfg(test)]
#[path = "../../build/tokens.rs"]
mod tokens;

#[cfg(test)]
#[path = "../../build/token_tests.rs"]
mod token_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_test_is_in_a_digest() {
        let sources = Sources::embedded();
        let rust = sources
            .paths()
            .filter(|path| path.ends_with(".rs"))
            .collect::<Vec<_>>();
        assert!(rust.len() > 100);
        for path in rust {
            let text = sources.text(path).unwrap();
            assert!(
                !text.contains("\n#\n[\ntest\n]\n"),
                "{path} has a test among its tokens"
            );
        }
    }

    #[test]
    fn imports_are_found_in_every_form() {
        let text = "import torch\nfrom orch_py import a, b\nfrom orch_py.deep.c import (\n    X,\n    Y as y,\n)\n\
            def f():\n    from orch_py import late\nfrom other import d\n";
        let found: Vec<_> = imports(text).into_iter().collect();
        assert_eq!(
            found,
            ["a", "b", "deep", "deep.c", "deep.c.X", "deep.c.Y", "late"]
        );
    }

    #[test]
    fn a_crate_is_known_by_its_locked_version_and_content() {
        let lock = "version = 4\n\n[[package]]\nname = \"ort\"\nversion = \"2.0\"\nchecksum = \"ab\"\n\n[[package]]\n\
            name = \"ort-sys\"\nversion = \"9\"\n";
        assert_eq!(locked_crate(lock, "ort").unwrap(), "ort 2.0 ab");
        assert_eq!(locked_crate(lock, "or"), None);
    }
}
