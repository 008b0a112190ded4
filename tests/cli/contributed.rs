//! `orch submit` and `orch site --contrib`: what one machine measured is shown on another one's site, and what does not follow
//! from its own evidence is not.

mod forged;

use std::collections::BTreeMap;

use orch::report::contribution::Contribution;
use serde_json::{Value, json};

use crate::onnx::RIGHT;
use crate::ready_onnx;
use crate::support::Sandbox;

const SUBMIT: [&str; 5] = ["submit", "--as", "ann", "--out", "contrib/ann.json"];
const SITE: [&str; 5] = ["site", "public", "--contrib", "contrib", "--json"];

/// A run of a model on two targets, and what it contributes.
fn submitted(values: [f32; 3]) -> (Sandbox, Value) {
    let sandbox = ready_onnx::sandbox(values);
    sandbox.run(["run", "specs/all.yaml", "--json"]);
    sandbox
        .run(SUBMIT)
        .success()
        .stderr_lacks("not contributed");
    let text = sandbox.read("contrib/ann.json");
    let contribution = serde_json::from_str(&text).unwrap();
    (sandbox, contribution)
}

/// With the digest that its content has, where it has the shape of a contribution.
fn sealed(value: Value) -> String {
    match serde_json::from_value::<Contribution>(value.clone()) {
        Ok(contribution) => contribution.sealed().text(),
        Err(_) => value.to_string(),
    }
}

/// The same by somebody else, on another machine of the same kind of device.
fn by(contribution: &Value, name: &str, machine: char) -> Value {
    let mut other = contribution.clone();
    other["by"] = json!(name);
    let fingerprint: String = std::iter::repeat_n(machine, 64).collect();
    other["machine"]["fingerprint"] = json!(fingerprint);
    for case in other["cases"].as_array_mut().unwrap() {
        for step in case["steps"].as_array_mut().unwrap() {
            if step["step"].as_str().unwrap().starts_with("run:") {
                step["document"]["host"] = json!(fingerprint);
                forged::rekey(step);
            }
        }
    }
    other
}

/// Names of the files of a site with their contents.
fn pages(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let root = sandbox.path("public");
    let files = walkdir::WalkDir::new(&root).into_iter();
    let files = files
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            let name = entry.path().strip_prefix(&root).unwrap();
            let name = name.to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (name, text)
        })
        .collect()
}

#[test]
fn a_run_is_contributed_and_shown_as_theirs_beside_ours() {
    let (sandbox, contribution) = submitted(RIGHT);
    assert_eq!(contribution["cases"].as_array().unwrap().len(), 2);
    let text = sandbox.read("contrib/ann.json");
    let home = sandbox.path("").display().to_string();
    assert!(!text.contains(&home), "a path of the machine: {home}");
    let made = sandbox.run(SITE).success().json();
    assert_eq!(
        (&made["contributions"], &made["refused"]),
        (&json!(1), &json!([]))
    );
    let pages = pages(&sandbox);
    let page = &pages["pairs/linear/cpu-fp32.html"];
    assert!(
        page.contains("<b>theirs</b>, as ours") && page.contains("ann"),
        "{page}"
    );
    let cell: Value = serde_json::from_str(&pages["pairs/linear/cpu-fp32.json"]).unwrap();
    assert_eq!(cell["theirs"][0]["standing"], "theirs");
    assert_eq!(cell["theirs"][0]["claims"][0]["by"], "ann");
    assert!(pages["theirs.html"].contains("linear:openvino-fp32"));
    assert!(
        pages["targets/cpu-fp32.html"].contains("theirs: passed"),
        "{}",
        pages["targets/cpu-fp32.html"]
    );
    // Without the folder the site is the owner's alone.
    sandbox.run(["site", "public"]).success();
    assert!(!sandbox.path("public/theirs.html").exists());
}

#[test]
fn what_two_found_is_confirmed_and_what_they_dispute_is_shown_so() {
    let (sandbox, contribution) = submitted(RIGHT);
    let standing = || {
        sandbox.run(SITE).success();
        let cell = sandbox.read("public/pairs/linear/cpu-fp32.json");
        let cell: Value = serde_json::from_str(&cell).unwrap();
        (
            cell["status"].clone(),
            cell["theirs"][0]["word"].clone(),
            cell["theirs"][0]["against"].clone(),
        )
    };
    let put =
        |name: &str, value: Value| sandbox.write(&format!("contrib/{name}.json"), sealed(value));
    // The same contributor on another machine, and another name on the same machine, are one.
    put("again", by(&contribution, "ann", 'b'));
    assert_eq!(
        standing(),
        (json!("PASS"), json!("theirs"), json!("as ours"))
    );
    put(
        "again",
        contribution
            .as_object()
            .map(|it| {
                let mut other = Value::Object(it.clone());
                other["by"] = json!("bob");
                other
            })
            .unwrap(),
    );
    assert_eq!(standing().1, "theirs");
    put("again", by(&contribution, "bob", 'b'));
    assert_eq!(standing().1, "confirmed by 2");
    // A third one for whom it crashes.
    let mut crashed = by(&contribution, "eve", 'c');
    forged::crashes(&mut crashed["cases"][0]);
    put("third", crashed);
    assert_eq!(
        standing(),
        (json!("PASS"), json!("disputed"), json!("differs from ours"))
    );
    let page = sandbox.read("public/pairs/linear/cpu-fp32.html");
    assert!(
        page.contains("pill pass") && page.contains("<b>disputed</b>, differs from ours"),
        "{page}"
    );
}

#[test]
fn a_wrong_result_is_contributed_as_what_it_is() {
    let (sandbox, contribution) = submitted([1.0, 1.0, 1.0]);
    let case = &contribution["cases"][0];
    assert_eq!(
        (&case["status"], &case["stage"]),
        (&json!("NUMERICS"), &json!("run"))
    );
    sandbox.run(SITE).success();
    let mut passed = contribution.clone();
    passed["cases"][0]["status"] = json!("PASS");
    sandbox.write("contrib/ann.json", sealed(passed));
    let ended = sandbox.run(SITE).code(1).json();
    assert_eq!(ended["refused"][0]["field"], "cases[0].status");
}

#[test]
fn forged_contributions_are_refused_each_for_its_own_reason() {
    let (sandbox, contribution) = submitted(RIGHT);
    sandbox.run(SITE).success();
    let before = pages(&sandbox);
    let forged = forged::all(&contribution);
    assert!(forged.len() >= 100, "{}", forged.len());
    for (at, one) in forged.iter().enumerate() {
        sandbox.write(&format!("contrib/forged-{at:03}.json"), &one.text);
    }
    let ended = sandbox.run(SITE).code(1);
    let refused = ended.json()["refused"].clone();
    let refused: BTreeMap<&str, &Value> = refused
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["file"].as_str().unwrap(), it))
        .collect();
    let mut complaints = Vec::new();
    for (at, one) in forged.iter().enumerate() {
        let Some(found) = refused.get(format!("contrib/forged-{at:03}.json").as_str()) else {
            complaints.push(format!("{}: it was taken in", one.name));
            continue;
        };
        let field = found["field"].as_str().unwrap();
        let why = found["why"].as_str().unwrap();
        if field != one.field || !why.contains(one.why) {
            complaints.push(format!(
                "{}: expected {}: {}; found {found}",
                one.name, one.field, one.why
            ));
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    assert_eq!(refused.len(), forged.len());
    assert!(
        ended.stderr.contains("refused: contrib/forged-000.json: `"),
        "{}",
        ended.stderr
    );
    assert_eq!(pages(&sandbox), before, "a refused file changes nothing");
}

#[test]
fn who_only_contributes_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox
        .run(SUBMIT)
        .code(2)
        .stderr_has("no run has left a report in `orch-out`");
    sandbox
        .run([
            "submit",
            "--as",
            "<b>",
            "--out",
            "a.json",
            "--report",
            "none.json",
        ])
        .code(2);
    sandbox.write("head.json", crate::history::REPORT);
    sandbox
        .run([
            "submit",
            "--as",
            "<b>",
            "--out",
            "a.json",
            "--report",
            "head.json",
        ])
        .code(2)
        .stderr_has("`<b>` cannot be the name of a contributor");
    // A report of another machine, of which this one's store has no records.
    sandbox
        .run([
            "submit",
            "--as",
            "ann",
            "--out",
            "a.json",
            "--report",
            "head.json",
        ])
        .code(3)
        .stderr_has("not contributed");
    sandbox
        .run([
            "submit",
            "other.yaml",
            "--as",
            "ann",
            "--out",
            "a.json",
            "--report",
            "head.json",
        ])
        .code(2)
        .stderr_has("and not of `other.yaml`");
    assert!(!sandbox.path("a.json").exists() && !sandbox.path("cache").exists());
    sandbox
        .run([
            "site",
            "public",
            "--report",
            "head.json",
            "--contrib",
            "none",
        ])
        .code(2)
        .stderr_has("failed to read the folder `none`");
}
