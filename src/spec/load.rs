//! Reads a spec file and all that it includes. Besides this, `check` only looks whether files are there.
//!
//! Knows where files are; what stands in them is for `raw` and `check`.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::check::{self, commands};
use super::error::{Sink, Span, SpecErrors, Text};
use super::raw::File;
use super::shape::Shape;
use super::yaml::{self, Key, Node, Pos, Value};
use super::{Commands, SourceFile, Spec};
use crate::base::{Digest, fs as bfs};

/// A file's content with the folder that its relative paths start from.
pub(super) struct Source {
    pub(super) content: File,
    pub(super) folder: PathBuf,
    pub(super) commands: Commands,
}

/// How large a file of a spec may be, bytes; a million steps take some 100 MiB.
const MOST_BYTES: u64 = 1 << 30;
/// How many files of a spec may be open, each included by the one before.
const MOST_DEEP: usize = 64;
/// How many files a spec may have.
const MOST_FILES: usize = 10_000;

#[derive(Default)]
struct Loader {
    sink: Sink,
    /// The files in reading order.
    files: Vec<SourceFile>,
    /// The sources in the order of their rows: included files before the file that includes them.
    sources: Vec<Source>,
    /// Canonical path of every file read, with the place that names it.
    seen: HashMap<PathBuf, Span>,
    /// Every file that was requested, read or not.
    asked: Vec<PathBuf>,
    /// The files being read, from the root to the current one.
    open: Vec<PathBuf>,
    /// A file that is taken for one of another text.
    instead: Option<(PathBuf, String)>,
}

impl Spec {
    /// Reads and checks a spec file and all that it includes.
    pub fn load(path: &Path) -> Result<Self, SpecErrors> {
        Self::load_noting(path, &mut Vec::new())
    }

    /// [`Self::load`], which also notes the files that the spec depends on, even when loading fails.
    pub fn load_noting(path: &Path, asked_for: &mut Vec<PathBuf>) -> Result<Self, SpecErrors> {
        Self::load_by(Loader::default(), path, asked_for)
    }

    /// Loads as if the file of this canonical path had another text.
    pub fn load_as_if(path: &Path, file: PathBuf, text: String) -> Result<Self, SpecErrors> {
        Self::load_by(
            Loader {
                instead: Some((file, text)),
                ..Loader::default()
            },
            path,
            &mut Vec::new(),
        )
    }

    fn load_by(
        mut loader: Loader,
        path: &Path,
        asked_for: &mut Vec<PathBuf>,
    ) -> Result<Self, SpecErrors> {
        loader.file(path, None);
        let Loader {
            mut sink,
            files,
            sources,
            asked,
            ..
        } = loader;
        *asked_for = asked;
        let root = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let root = root.parent().unwrap_or(Path::new("")).to_owned();
        let spec = check::spec(root, files, sources, &mut sink);
        asked_for.append(&mut sink.absent);
        sink.finish()?;
        Ok(spec)
    }
}

/// Whether a file is a spec by its name.
pub fn is_spec(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "yaml" || ending == "yml")
}

impl Loader {
    /// Reads one file; `asked` is the `include` entry that names it.
    fn file(&mut self, path: &Path, asked: Option<Span>) {
        if let Some(asked) = asked
            && let Some((message, hint)) = self.refusal(path)
        {
            self.sink.incomplete = true;
            self.sink.error_hint(asked, message, hint);
            return;
        }
        self.asked.push(path.to_owned());
        let read = fs::canonicalize(path).and_then(|canonical| match &self.instead {
            Some((file, text)) if *file == canonical => Ok((canonical, text.clone())),
            _ => Ok((canonical, bfs::read_text(path, MOST_BYTES)?)),
        });
        let (canonical, text) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.unreadable(path, asked, "there is no such file");
            }
            Err(error) => return self.unreadable(path, asked, &error.to_string()),
        };
        if self.refused(&canonical, path, asked) {
            return;
        }
        let digest = Digest::of(text.as_bytes());
        self.files.push(SourceFile {
            path: path.to_owned(),
            digest,
        });
        let index = self.sink.files.len() as u32;
        let text = Arc::new(text);
        self.sink.files.push(Text {
            path: Arc::new(path.to_owned()),
            text: text.clone(),
        });
        self.seen
            .insert(canonical.clone(), asked.unwrap_or_default());
        self.open.push(canonical);
        self.sink.file = index;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().unwrap_or(Path::new("")).to_owned();
        if let Some((content, commands)) = self.content(&text, &folder, asked.is_none()) {
            self.included(path, &content);
            self.sink.file = index;
            self.sources.push(Source {
                content,
                folder,
                commands,
            });
        }
        self.open.pop();
    }

    /// What a text holds.
    fn content(&mut self, text: &str, folder: &Path, is_root: bool) -> Option<(File, Commands)> {
        let mut node = self.tree(text)?;
        if is_root && node.value == Value::Null {
            let span = self.sink.span(node.pos);
            let hint = "begin it with `version: 1`; `orch init FOLDER` writes a first spec there";
            self.sink.error_hint(span, "the spec is empty", hint);
            return None;
        }
        let commands = self.take_rows(&mut node, folder);
        let node = without_extensions(node);
        let start = Pos {
            line: 1,
            column: 1,
            len: 0,
        };
        let file = File::read(
            &node,
            &Key {
                text: "the spec".into(),
                pos: start,
            },
            &mut self.sink,
        )?;
        let start = self.sink.span(start);
        match file.version.given() {
            Some(version) if version.value != 1 => {
                let message = format!("version {} is not known", version.value);
                self.sink
                    .error_hint(version.span, message, "this orch reads `version: 1`");
            }
            None if is_root && file.version.is_absent() => {
                self.sink.error_hint(
                    start,
                    "the spec lacks `version`",
                    "begin it with `version: 1`",
                );
            }
            _ => {}
        }
        Some((file, commands))
    }

    /// The tree of a text, or what is wrong with it.
    fn tree<'t>(&mut self, text: &'t str) -> Option<Node<'t>> {
        let (node, errors) = yaml::parse(text);
        for error in errors {
            let span = self.sink.span(error.pos);
            self.sink
                .push(span, error.message, error.hint.map(str::to_owned));
        }
        self.sink.incomplete |= node.is_none();
        node
    }

    /// Moves the rows of the section `commands` out of the tree.
    fn take_rows(&mut self, node: &mut Node<'_>, folder: &Path) -> Commands {
        let mut commands = Commands::default();
        let Value::Map(entries) = &mut node.value else {
            return commands;
        };
        let Some((_, section)) = entries.iter_mut().find(|(key, _)| key.text == "commands") else {
            return commands;
        };
        let Value::Map(rows) = &mut section.value else {
            return commands;
        };
        for (key, row) in rows.drain(..) {
            let row = commands::row(&key, &row, folder, &mut self.sink);
            // A second row of the same name is a duplicate key, and was reported as such.
            commands.entry(row.name.clone()).or_insert(row);
        }
        commands
    }

    fn included(&mut self, path: &Path, content: &File) {
        let folder = path.parent().unwrap_or(Path::new(""));
        for entry in content.include.items() {
            // Collected from its components, `./part.yaml` is shown as `part.yaml`.
            let path: PathBuf = folder.join(&entry.value).components().collect();
            self.file(&path, Some(entry.span));
        }
    }

    /// Why a file cannot be included, with a hint: it is one too many, or not named as a spec. Such a file is not read, because
    /// errors quote what they are about, and it may be anything.
    fn refusal(&self, path: &Path) -> Option<(String, &'static str)> {
        let shown = path.display();
        if self.open.len() >= MOST_DEEP {
            let message = format!(
                "{shown} is included by a file that is included by a file, {MOST_DEEP} deep"
            );
            Some((message, "include it in a file further up"))
        } else if self.files.len() >= MOST_FILES {
            Some((
                format!("{shown} is one file too many: a spec may have at most {MOST_FILES}"),
                "join some of them",
            ))
        } else if !is_spec(path) || fs::canonicalize(path).is_ok_and(|target| !is_spec(&target)) {
            let message = format!(
                "{shown} is not read: only files named `*.yaml` or `*.yml` can be included"
            );
            Some((message, "give it such a name, if it is a part of a spec"))
        } else {
            None
        }
    }

    /// Whether a file has been read before: that is a cycle or a repetition, and an error.
    fn refused(&mut self, canonical: &Path, path: &Path, asked: Option<Span>) -> bool {
        let (Some(asked), Some(first)) = (asked, self.seen.get(canonical).copied()) else {
            return false;
        };
        let shown = path.display();
        if self.open.iter().any(|open| open == canonical) {
            self.sink.error(
                asked,
                format!("{shown} includes itself, directly or indirectly"),
            );
        } else {
            let first = self.sink.loc(first);
            self.sink
                .error(asked, format!("{shown} is already included at {first}"));
        }
        true
    }

    fn unreadable(&mut self, path: &Path, asked: Option<Span>, why: &str) {
        self.sink.incomplete = true;
        let message = format!("failed to read {}: {why}", path.display());
        match asked {
            Some(span) => self.sink.error_hint(
                span,
                message,
                "paths in `include` start from the file that names them",
            ),
            None => self
                .sink
                .error_nowhere(format!("{message}\nhint: {}", instead(path, why))),
        }
    }
}

/// The spec that `orch init` writes, and that commands read where none is named.
const FIRST: &str = "specs/all.yaml";

/// What whoever names a spec that is none may do.
fn instead(path: &Path, why: &str) -> String {
    let inside = path.join("all.yaml");
    if inside.is_file() {
        return format!("did you mean `{}`?", inside.display());
    }
    let shown = path.display();
    let is_a_graph = path.to_string_lossy().ends_with(".onnx");
    if is_a_graph || path.join("config.json").is_file() {
        return format!("that is a model: `orch init --model {shown}` writes a spec for it");
    }
    if path.is_dir() {
        return "name a file in it".to_owned();
    }
    if why.contains("UTF-8") {
        return "a spec is a YAML file: save it as UTF-8".to_owned();
    }
    if path.exists() {
        return format!("a spec is a YAML file, such as `{FIRST}`");
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_of_a_model = !path.is_absolute() && !matches!(extension, Some("yaml" | "yml"));
    let has_first = Path::new(FIRST).is_file();
    let is_count = path.to_string_lossy().parse::<u64>().is_ok();
    if is_count {
        return format!(
            "`{shown}` was read as the spec: give an option its value as `--option={shown}`"
        );
    }
    if is_of_a_model && has_first {
        return format!("`-m {shown}` selects a model of `{FIRST}`, and `orch add` adds one");
    }
    if is_of_a_model && path.components().count() == 2 {
        return format!(
            "`orch init --model {shown}` writes a spec for a model of the Hub with this id"
        );
    }
    if is_of_a_model && !path.as_os_str().is_empty() && path.components().count() == 1 {
        return format!(
            "`orch init` writes a first spec, `{FIRST}`, of which `-m {shown}` selects a model; \
             `orch init --model ORG/NAME` writes one for a model of the Hub"
        );
    }
    if has_first {
        return format!("name a spec that is there, such as `{FIRST}`");
    }
    format!(
        "`orch init` writes a first spec, `{FIRST}`; in a project, run orch from the folder that contains `specs`"
    )
}

fn without_extensions(mut node: Node) -> Node {
    if let Value::Map(entries) = &mut node.value {
        entries.retain(|(key, _)| !key.text.starts_with("x-"));
    }
    node
}
