//! What `templates/report.html.j2` is given: every figure is text by now, and nothing is left to compute.

use serde::Serialize;

use super::super::chart::{Chart, Sparkline};

#[derive(Serialize)]
pub(super) struct Page<'a> {
    pub(super) spec: &'a str,
    pub(super) scope: Option<&'a str>,
    pub(super) orch: &'a str,
    pub(super) host: String,
    pub(super) steps: String,
    pub(super) earlier: Option<String>,
    pub(super) chips: Vec<Chip>,
    pub(super) targets: Vec<&'a str>,
    pub(super) columns: Vec<Column<'a>>,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) stand_ins: bool,
    pub(super) failures: Vec<Reason<'a>>,
    /// Neither failures nor plain successes.
    pub(super) notable: Vec<Reason<'a>>,
    /// Steps of the user's own, and why they were tried again.
    pub(super) flaky_steps: Vec<(&'a str, String)>,
    pub(super) incomplete: Vec<Reason<'a>>,
    pub(super) unsupported: Vec<Reason<'a>>,
    pub(super) unavailable: Vec<Group>,
    pub(super) exclusions: Vec<Group>,
    pub(super) backends: Vec<Backend<'a>>,
    pub(super) charts: Vec<Chart>,
    pub(super) performance: Vec<Performance>,
    pub(super) worst: Vec<Worst<'a>>,
    pub(super) versions: Vec<(&'a str, String)>,
    pub(super) details: Vec<Detail<'a>>,
    /// The matrix fills many screens.
    pub(super) long: bool,
    /// JSON that cannot leave its script element.
    pub(super) data: Option<String>,
}

/// A count in the header that is also a filter.
#[derive(Serialize)]
pub(super) struct Chip {
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) word: &'static str,
    pub(super) count: u32,
}

#[derive(Serialize)]
pub(super) struct Column<'a> {
    pub(super) target: &'a str,
    pub(super) precision: &'a str,
    pub(super) unavailable: bool,
}

#[derive(Serialize)]
pub(super) struct Row<'a> {
    pub(super) model: String,
    pub(super) about: String,
    pub(super) cells: Vec<Square<'a>>,
}

/// A cell. `case` is the position in `details`; None for exclusions and for pairs that the spec does not ask for.
#[derive(Serialize)]
pub(super) struct Square<'a> {
    pub(super) target: &'a str,
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) text: String,
    pub(super) label: Option<&'static str>,
    pub(super) title: String,
    pub(super) case: Option<usize>,
    pub(super) narrow: bool,
}

/// Cases with one cause, by their positions in `details`.
#[derive(Serialize)]
pub(super) struct Reason<'a> {
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) status: &'static str,
    pub(super) stage: Option<&'a str>,
    pub(super) reason: String,
    pub(super) repro: Option<&'a str>,
    pub(super) count: usize,
    pub(super) cases: Vec<usize>,
    /// The rest of many.
    pub(super) more: Vec<usize>,
}

#[derive(Serialize)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) places: String,
    pub(super) count: String,
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Backend<'a> {
    pub(super) name: &'a str,
    pub(super) devices: Vec<(&'a str, &'a str, Option<&'static str>)>,
}

#[derive(Serialize)]
pub(super) struct Performance {
    pub(super) name: String,
    pub(super) label: Option<&'static str>,
    pub(super) cases: Vec<usize>,
}

#[derive(Serialize)]
pub(super) struct Worst<'a> {
    pub(super) name: String,
    pub(super) compared: usize,
    pub(super) outside: usize,
    pub(super) max_abs: (String, &'a str),
    pub(super) mae: (String, &'a str),
    pub(super) cosine: (String, &'a str),
    /// Where an output is one of tokens.
    pub(super) tokens: Option<(String, &'a str)>,
}

/// All of one case.
#[derive(Serialize)]
pub(super) struct Detail<'a> {
    pub(super) name: String,
    /// At its sizes.
    pub(super) model: String,
    pub(super) kind: &'static str,
    pub(super) glyph: &'static str,
    pub(super) status: &'static str,
    pub(super) stage: Option<&'a str>,
    pub(super) reason: Option<String>,
    pub(super) repro: Option<&'a str>,
    pub(super) about: String,
    /// Why orch chose this target.
    pub(super) chosen: Option<&'a str>,
    /// Why it computed in fp32 though its model is in half precision.
    pub(super) cast_to_fp32: Option<&'a str>,
    /// How its int8 weights were made, where they keep to a reduced range.
    pub(super) reduced_range: Option<&'a str>,
    /// What its target's `half` came to.
    pub(super) half: Option<String>,
    pub(super) requested: &'a str,
    pub(super) actual: Option<&'a str>,
    pub(super) label: Option<&'static str>,
    pub(super) measured: Option<String>,
    pub(super) metrics: Option<Figures<'a>>,
    pub(super) numerics: Option<Compared<'a>>,
    pub(super) placement: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) facts: Vec<(&'a str, String)>,
    pub(super) steps: &'a [String],
}

#[derive(Serialize)]
pub(super) struct Figures<'a> {
    pub(super) median: String,
    pub(super) interval: Option<String>,
    pub(super) range: Option<String>,
    pub(super) tails: Vec<(&'static str, String)>,
    pub(super) first: String,
    pub(super) load: String,
    pub(super) rss: Option<String>,
    pub(super) vram: Option<String>,
    pub(super) samples: String,
    pub(super) sync: &'a str,
    pub(super) noisy: bool,
    pub(super) sparkline: Option<Sparkline>,
}

#[derive(Serialize)]
pub(super) struct Compared<'a> {
    pub(super) reference: &'a str,
    pub(super) passed: bool,
    /// What the verdict rests on, in words.
    pub(super) verdict: Vec<(&'static str, String)>,
    pub(super) tensors: Vec<[String; 9]>,
}
