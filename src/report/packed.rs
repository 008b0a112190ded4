//! What the page's script knows of the cases, compressed: their details are alike, and as markup they were most of a page.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::details::detail;
use super::stats::thinned;
use super::view::View;
use super::{CaseResult, Metrics, ReportDoc};
use crate::base::text::printable;

/// The document of so many cases is in the page too.
const EMBEDDED: usize = 1000;

/// Whether [`data`] holds the document.
pub(super) fn holds_document(doc: &ReportDoc) -> bool {
    doc.cases.len() <= EMBEDDED
}

/// JSON, gzipped, in base64, which cannot leave a script element.
pub(super) fn data(view: &View<'_>) -> String {
    fn each<'a, T>(view: &View<'a>, of: impl Fn(&'a CaseResult) -> T) -> Vec<T> {
        view.doc.cases.iter().map(of).collect()
    }
    fn shown<'a>(view: &View<'_>, case: &'a CaseResult) -> Option<&'a Metrics> {
        case.metrics.as_ref().filter(|_| view.comparable(case))
    }
    let worst = |case: &CaseResult| {
        let tensors = case
            .numerics
            .iter()
            .flat_map(|numerics| numerics.tensors.values());
        tensors.map(|tensor| tensor.max_abs).max_by(f64::total_cmp)
    };
    // Lists by case.
    let mut data = json!({
        "details": null,
        // One number of each case, where it has one that may stand beside others.
        "figures": {
            "latency": each(view, |case| Some(shown(view, case)?.median_ms)),
            // Whether that may not be read as it stands.
            "not_quiet": each(view, |case| shown(view, case).is_some_and(|metrics| !metrics.is_quiet())),
            // Peak of the process, bytes.
            "memory": each(view, CaseResult::peak_rss),
            // Of a GPU's own, bytes.
            "device": each(view, |case| case.metrics.as_ref()?.peak_device_bytes),
            // The largest absolute difference from the reference.
            "error": each(view, worst),
        },
        // The lowest and the highest median of several rounds, ms.
        "spreads": each(view, |case| shown(view, case).and_then(|metrics| metrics.median_low_ms.zip(metrics.median_high_ms))),
        "samples": each(view, |case| shown(view, case).map(|metrics| thinned(&metrics.samples_ms)).unwrap_or_default()),
    });
    // Moved and not copied, as most of the data is there.
    data["details"] = each(view, |case| detail(view, case, true)).into();
    make_printable(&mut data);
    if holds_document(view.doc) {
        data["document"] = super::json::render(view.doc).into();
    }
    packed(&data.to_string())
}

fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let bytes = gzip
        .write_all(text.as_bytes())
        .and_then(|()| gzip.finish())
        .expect("BUG: memory takes what is written");
    STANDARD.encode(bytes)
}

/// Makes a value printable as the template does with what it puts into markup.
fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(fields) => fields.values_mut().for_each(make_printable),
        _ => {}
    }
}
