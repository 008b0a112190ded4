//! What the page's script knows of the cases, compressed: their details are alike, and as markup they were most of a page.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::Value;

use super::chart::thinned;
use super::details::Detail;
use super::view::View;
use super::{CaseResult, ReportDoc, json};
use crate::base::text::printable;

/// The document of so many cases is in the page too.
const EMBEDDED: usize = 1000;

/// Lists by case.
#[derive(Serialize)]
struct Data<'a> {
    details: Vec<Detail<'a>>,
    figures: Figures,
    /// The lowest and the highest median of several rounds, ms.
    spreads: Vec<Option<(f64, f64)>>,
    /// ms, in order.
    samples: Vec<Vec<f64>>,
}

/// One number of each case, where it has one that may stand beside others.
#[derive(Serialize)]
struct Figures {
    /// The median, ms.
    latency: Vec<Option<f64>>,
    /// Peak of the process, bytes.
    memory: Vec<Option<u64>>,
    /// The largest absolute difference from the reference.
    error: Vec<Option<f64>>,
}

/// Whether [`data`] holds the document.
pub(super) fn holds_document(doc: &ReportDoc) -> bool {
    doc.cases.len() <= EMBEDDED
}

/// JSON, gzipped, in base64, which cannot leave a script element.
pub(super) fn data(view: &View<'_>) -> String {
    fn each<T>(view: &View<'_>, of: impl Fn(&CaseResult) -> T) -> Vec<T> {
        view.doc.cases.iter().map(of).collect()
    }
    let shown = |case: &CaseResult| case.metrics.clone().filter(|_| view.comparable(case));
    let worst = |case: &CaseResult| {
        let tensors = case.numerics.iter().flat_map(|numerics| numerics.tensors.values());
        tensors.map(|tensor| tensor.max_abs).max_by(f64::total_cmp)
    };
    let data = Data {
        details: view.doc.cases.iter().map(|case| Detail::of(view, case)).collect(),
        figures: Figures {
            latency: each(view, |case| shown(case).map(|metrics| metrics.median_ms)),
            memory: each(view, |case| case.metrics.as_ref().and_then(|metrics| metrics.peak_rss_bytes)),
            error: each(view, worst),
        },
        spreads: each(view, |case| shown(case).and_then(|metrics| metrics.median_low_ms.zip(metrics.median_high_ms))),
        samples: each(view, |case| shown(case).map(|metrics| thinned(&metrics.samples_ms)).unwrap_or_default()),
    };
    let mut data = serde_json::to_value(data).expect("BUG: strings and numbers serialise");
    make_printable(&mut data);
    if holds_document(view.doc) {
        data["document"] = json::render(view.doc).into();
    }
    packed(&data.to_string())
}

fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let bytes =
        gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()).expect("BUG: memory takes what is written");
    STANDARD.encode(bytes)
}

/// As the template does with what it puts into markup.
fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(fields) => fields.values_mut().for_each(make_printable),
        _ => {}
    }
}
