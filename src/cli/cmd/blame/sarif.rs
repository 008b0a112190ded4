//! Findings as SARIF 2.1.0, the form in which code hosts take the results of analyses.
//!
//! The place of a result is the model's row in its spec, because that is the file of the project that names the model.

use serde_json::{Value, json};

use crate::base::Loc;
use crate::session::{Blamed, Found, Verdict};

/// The rules, by the verdict: its id, and what a result of it says.
fn rule(verdict: Verdict) -> Option<(&'static str, &'static str)> {
    match verdict {
        Verdict::Runtime => Some(("runtime-is-wrong", "A runtime computes some nodes wrongly")),
        Verdict::File => Some(("file-is-wrong", "The exported file is wrong")),
        Verdict::Exporter => Some((
            "exporter-is-wrong",
            "An exporter makes a wrong file of a module",
        )),
        Verdict::ExporterRefuses => Some((
            "exporter-refuses",
            "An exporter ends with an error at a module",
        )),
        Verdict::Varies => Some(("outputs-vary", "A runtime gives other outputs each time")),
        Verdict::NoWindow => Some((
            "no-window-is-wrong",
            "A runtime is wrong on the whole graph and on no part of it",
        )),
        Verdict::BeyondRounding => Some((
            "beyond-rounding",
            "A runtime is wrong by more than rounding makes",
        )),
        Verdict::Refused => Some(("runtime-refuses", "A runtime refuses some nodes")),
        Verdict::Crashed => Some((
            "runtime-crashes",
            "A runtime ends its process at some nodes",
        )),
        // Nobody is at fault: the scores were as near to each other, or the user chose the precision.
        Verdict::Choice | Verdict::Rounding | Verdict::NotReproduced => None,
    }
}

/// The log of one run of `orch blame`. Cases in which nothing is wrong, or nothing was found out, have no result.
pub(super) fn log(found: &[Blamed]) -> Value {
    let verdicts = [
        Verdict::Runtime,
        Verdict::File,
        Verdict::Exporter,
        Verdict::ExporterRefuses,
        Verdict::Varies,
        Verdict::NoWindow,
        Verdict::BeyondRounding,
        Verdict::Refused,
        Verdict::Crashed,
    ];
    let rules: Vec<_> = verdicts
        .into_iter()
        .filter_map(rule)
        .map(|(id, text)| json!({"id": id, "shortDescription": {"text": text}}))
        .collect();
    let results: Vec<_> = found.iter().filter_map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "orch",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn result(blamed: &Blamed) -> Option<Value> {
    let Found { finding, repro, .. } = blamed.answer.as_ref().ok()?;
    let (id, text) = rule(finding.verdict)?;
    let operators: Vec<_> = finding
        .nodes
        .iter()
        .map(|node| node.operator.as_str())
        .collect();
    let mut message = format!(
        "{}: {text} ({} {})",
        blamed.case, finding.runtime, finding.version
    );
    if !operators.is_empty() {
        message += &format!(": {}", operators.join(" > "));
    }
    if let Some(module) = &finding.module {
        message += &format!(": {} `{}`", module.class, module.path);
    }
    if let Some(pass) = &finding.pass {
        let name = pass.name.as_deref().unwrap_or("no single pass");
        message += &format!(", {name} in its {}", pass.stage);
    }
    let names = finding.nodes.iter().map(|node| {
        json!({"name": node.name, "fullyQualifiedName": format!("{}/{}", blamed.case, node.name), "kind": "function"})
    });
    let mut location = json!({"logicalLocations": names.collect::<Vec<_>>()});
    if let Some(place) = blamed.row.as_ref() {
        location["physicalLocation"] = physical(place);
    }
    let mut result = json!({
        "ruleId": id,
        "level": "error",
        "message": {"text": message},
        "locations": [location],
        "properties": {"case": blamed.case, "finding": finding, "repro": repro},
    });
    // A code host knows an alert again by this, wherever the row has moved to.
    if let Some(signature) = &finding.signature {
        result["partialFingerprints"] =
            json!({"signature/v1": format!("{signature} | {}", blamed.case)});
    }
    Some(result)
}

fn physical(place: &Loc) -> Value {
    json!({
        "artifactLocation": {"uri": place.file.to_string_lossy()},
        "region": {"startLine": place.line, "startColumn": place.column},
    })
}
