//! `generate:<model>:<variant>`: renders one standalone Python test per model × pipeline × target.
//!
//! Pure: a [`TestContext`] becomes the text of a file, the same on every host. Knows neither whether the hardware is there
//! nor what the model's outputs look like; the file itself finds out when it runs (docs/pipelines.md).

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::Digest;
use crate::catalogue::{Artefact, Runtime, TestMeasure};
use crate::device::BackendRow;
use crate::spec::{Element, Precision, Tolerance, library};
use crate::step::render::plain;
use crate::template::{self, TemplateError};
use crate::toolchain;

/// All that a generated test is made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestContext {
    /// orch's own version.
    pub orch: String,
    pub model: String,
    /// The transformers class; None for a ready file.
    pub class: Option<String>,
    pub family: String,
    pub task: String,
    /// The pipeline's name, for people.
    pub pipeline: String,
    /// The pipeline's template: `templates/pipelines/<template>.py.j2`.
    pub template: String,
    pub target: String,
    pub backend: &'static BackendRow,
    pub runtime: &'static Runtime,
    /// The runtime's own name of the device.
    pub device: String,
    pub precision: Precision,
    /// OpenVINO's word for the type to compute in, where the precision alone does not say it.
    pub computes: Option<String>,
    /// Target and precision, e.g. `openvino-fp16`.
    pub variant: String,
    /// The model at the case's sizes, e.g. `bert` or `bert@b4`: the name of the folder that holds its artefacts.
    pub instance: String,
    pub artefact: &'static Artefact,
    /// The artefact's own variant, e.g. `onnx` or `openvino-fp16`: the folder in that folder.
    pub artefact_variant: String,
    pub inputs: Vec<InputSummary>,
    /// Names of the outputs as far as the spec names them.
    pub outputs: Vec<String>,
    /// Names of the outputs whose whole numbers are tokens, where it judges.
    #[serde(default)]
    pub tokens: Vec<String>,
    /// None in the test that orch itself runs: it judges elsewhere.
    pub tolerance: Option<Tolerance>,
    pub measure: TestMeasure,
    pub options: BTreeMap<String, Value>,
    pub trust_remote_code: bool,
    /// Whether the model has to generate text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generates: bool,
    /// How many positions at the end of a text have scores; None: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<u32>,
    /// Whether its weights are those of a folder or of the Hub, with what reads files for it and its own words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_weights: bool,
    /// How many experts take each token, where the pipeline asks and the config says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts_per_token: Option<u64>,
    /// The models that a loop calls; none of one model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentSummary>,
}

/// One model of several.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComponentSummary {
    /// The part that it plays, e.g. `unet`.
    pub part: String,
    pub class: String,
    /// The package of Python that its class is in.
    pub library: String,
}

/// One declared input, its named sizes resolved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputSummary {
    pub name: String,
    pub dtype: Element,
    pub shape: Vec<u64>,
}

/// What the templates see: the context, and what follows from it.
#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    context: &'a TestContext,
    file: String,
    loads: &'static str,
    input_names: Vec<&'a str>,
    first_input: Option<&'a str>,
    main: &'a str,
    /// Whether the file itself loads the model and infers; otherwise another program does.
    infers_here: bool,
    /// The decoding, and how its tokens are judged: text of `orch_py` too.
    greedy: &'static str,
    generates: bool,
    own_weights: bool,
    /// What reads people's files and names outputs in the model's words: text of `orch_py` too.
    own_files: &'static str,
    /// Whether it decodes with a cache, where the model and the artefact have one.
    caches: bool,
    /// Whether the pipeline looks at further inferences of the loaded model.
    infers_more: bool,
    experts_per_token: Option<u64>,
    positions: Option<u32>,
    components: &'a [ComponentSummary],
    /// The packages of Python that the models' classes are in.
    libraries: BTreeSet<&'a str>,
    /// What runs a loop: text of `orch_py` too.
    loops: &'static str,
    /// The verdict: what `orch_py` itself judges by, since no test imports it.
    judge: &'static str,
}

/// The module of the verdict, and the line below which it is part of every test.
pub const JUDGE: &str = "judge/judge.py";
const JUDGE_BELOW: &str = "# --- What follows is a part of every generated test. ---\n";
/// The module of greedy decoding, of which the same holds for tests that generate.
pub const GREEDY: &str = "generate/greedy.py";
/// The module of loops, for tests of models that are made of several.
pub const LOOPS: &str = "generate/loops.py";
const LOOPS_BELOW: &str =
    "# --- What follows is a part of every generated test of a model with components. ---\n";
/// The module of what comes with weights, for tests of models that have some of their own.
pub const OWN_FILES: &str = "inputs/own_files.py";
const OWN_FILES_BELOW: &str = "# --- What follows is a part of every generated test of a model with weights of its own. ---\n";
const GREEDY_BELOW: &str =
    "# --- What follows is a part of every generated test that generates. ---\n";

fn embedded(module: &str, below: &str) -> &'static str {
    let text = toolchain::PACKAGE
        .get_file(module)
        .and_then(|file| file.contents_utf8());
    let (_, text) = text
        .and_then(|text| text.split_once(below))
        .expect("BUG: a module has lost its mark");
    text.trim()
}

impl TestContext {
    /// The file's name in its tree.
    pub fn file_name(&self) -> String {
        super::test_file_name(&self.model, &self.variant)
    }

    /// `templates/hardware/<this>.py.j2`.
    pub fn hardware(&self) -> anyhow::Result<&'static str> {
        let pair = self.runtime.on(self.backend).with_context(|| {
            let target = &self.target; let runtime = self.runtime.name; let backend = self.backend.name;
            format!("target `{target}`: there is no template of a test for runtime `{runtime}` on backend `{backend}`")
        })?;
        Ok(pair.template)
    }

    fn check(&self) -> anyhow::Result<()> {
        let model = &self.model;
        let target = &self.target;
        if self.artefact.needs_class && self.components.is_empty() {
            let class = self.class.as_deref().unwrap_or_default();
            let identifier =
                !class.is_empty() && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            ensure!(
                identifier,
                "model `{model}` has no transformers class, so target `{target}` cannot run it"
            );
            ensure!(
                matches!(
                    self.precision,
                    Precision::Fp32 | Precision::Fp16 | Precision::Bf16
                ),
                "target `{target}`: PyTorch's eager mode has no {} models; take fp32, fp16 or bf16",
                self.precision.word()
            );
        }
        Ok(())
    }

    /// Whether its pipeline knows what its outputs mean.
    fn has_results(&self) -> bool {
        let pipeline = template::source(&format!("pipelines/{}.py.j2", self.template));
        pipeline.is_some_and(|source| source.contains("results/_of.py.j2"))
    }

    fn libraries(&self) -> BTreeSet<&str> {
        let own = self.class.as_deref().map(library);
        own.into_iter()
            .chain(self.components.iter().map(|one| one.library.as_str()))
            .collect()
    }

    fn view(&self) -> View<'_> {
        let input_names: Vec<_> = self
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        let brings = |function: &str| {
            self.hardware()
                .is_ok_and(|hardware| defines(&format!("hardware/{hardware}.py.j2"), function))
        };
        let infers_here = brings("infer");
        View {
            context: self,
            file: self.file_name(),
            loads: self.artefact.title,
            first_input: input_names.first().copied(),
            // transformers calls scores `logits`; a ready file's own first output stands in for it.
            main: match self.outputs.iter().any(|name| name == "logits") {
                true => "logits",
                false => self.outputs.first().map_or("logits", String::as_str),
            },
            input_names,
            infers_here,
            greedy: embedded(GREEDY, GREEDY_BELOW),
            generates: self.generates && infers_here,
            // A task of another program brings its own steps, and of plain tensors nobody knows what they mean.
            own_weights: self.own_weights
                && self.artefact.name != "transformers-js"
                && self.has_results(),
            own_files: embedded(OWN_FILES, OWN_FILES_BELOW),
            caches: self.generates && self.components.is_empty() && brings("open_decoder"),
            infers_more: infers_here
                && defines(&format!("pipelines/{}.py.j2", self.template), "infer_more"),
            experts_per_token: self.experts_per_token,
            positions: self.positions,
            components: &self.components,
            libraries: self.libraries(),
            loops: embedded(LOOPS, LOOPS_BELOW),
            judge: embedded(JUDGE, JUDGE_BELOW),
        }
    }
}

/// Whether a template, or one that it extends, brings this function.
fn defines(name: &str, function: &str) -> bool {
    let source = template::source(name).unwrap_or_default();
    let parent = source
        .split_once("{% extends \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(parent, _)| parent);
    source.contains(&format!("\ndef {function}("))
        || parent.is_some_and(|parent| defines(parent, function))
}

/// The text of the test. Fails when a template asks for what the context does not have.
pub fn render_test(ctx: &TestContext) -> anyhow::Result<String> {
    ctx.check()?;
    let name = format!("hardware/{}.py.j2", ctx.hardware()?);
    Ok(squeezed(&template::render(&name, ctx.view())?))
}

/// Name and text of the file that runs all tests of one model, on whatever of their targets is here. It lies beside them and
/// finds them by their names, so it is the same whatever a run selects, and no step makes it.
pub fn for_all_platforms(model: &str) -> Result<(String, String), TemplateError> {
    let file = format!("all_{}.py", plain(model));
    // Of the model `a`, and not of `a_b`, whose name has two of them there.
    let pattern = format!(r"test_{}_(?!_)(.+)\.py", plain(model).replace('+', r"\+"));
    let orch = env!("CARGO_PKG_VERSION");
    let text = template::render(
        "all.py.j2",
        json!({"model": model, "file": file, "pattern": pattern, "orch": orch}),
    )?;
    Ok((file, text))
}

/// What a test says of the files that lie beside it, until it is handed out with them: a conversion is made after its test.
const UNFILLED: &str = "\nHANDED_OUT: Document | None = None\n";

/// The text of a test that is handed out with these trees, by the names of their folders. It refuses all others, and
/// tells `again`, the command line that makes them.
pub fn handed_out(text: Vec<u8>, again: &str, trees: &BTreeMap<String, Digest>) -> Vec<u8> {
    let text = String::from_utf8(text).expect("BUG: a test is text");
    // JSON of texts alone is Python too. In the form that `ruff format` gives it.
    let literal = |text: &str| json!(text).to_string();
    let trees: String = trees
        .iter()
        .map(|(name, tree)| format!("        {}: \"{tree}\",\n", literal(name)))
        .collect();
    let trees = if trees.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{\n{trees}    }}")
    };
    let filled = format!(
        "\nHANDED_OUT: Document | None = {{\n    \"again\": {},\n    \"trees\": {trees},\n}}\n",
        literal(again)
    );
    text.replacen(UNFILLED, &filled, 1).into_bytes()
}

/// The text of a test as it was before [`handed_out`]; any other text as it is.
pub fn as_made(text: &[u8]) -> Cow<'_, [u8]> {
    let (head, _) = UNFILLED.split_once('=').expect("BUG: it has a value");
    let made = std::str::from_utf8(text).ok().and_then(|text| {
        let (before, filled) = text.split_once(head)?;
        let (_, after) = filled.split_once(if filled.starts_with("= {\n") {
            "\n}\n"
        } else {
            "\n"
        })?;
        Some([before, UNFILLED, after].concat())
    });
    made.map_or(Cow::Borrowed(text), |text| Cow::Owned(text.into_bytes()))
}

/// A text with at most two blank lines in a row, and one newline at the end: a block that brings nothing leaves the
/// blank lines around it, and no block can know its neighbours.
fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = 0;
    for line in text.lines() {
        let line = line.trim_end();
        blank = if line.is_empty() { blank + 1 } else { 0 };
        if blank <= 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}
