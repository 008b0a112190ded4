//! Contributions that do not follow from their own evidence: each differs from a sound one in one lie, and carries all
//! digests that a liar can compute.

mod cases;
mod evidence;

use orch::key::KeyDoc;
use serde_json::{Value, json};

use super::sealed;

pub(super) struct Forged {
    pub(super) name: String,
    /// The field that is refused, and a part of the reason.
    pub(super) field: String,
    pub(super) why: &'static str,
    pub(super) text: String,
}

/// Gives a step the key of its document.
pub(super) fn rekey(step: &mut Value) {
    let mut doc = KeyDoc::default();
    for (name, value) in step["document"].as_object().unwrap() {
        doc.set(name, value.as_str().unwrap());
    }
    step["key"] = json!(doc.digest().to_string());
}

/// A case whose run crashed, with evidence of that.
pub(super) fn crashes(case: &mut Value) {
    let steps = case["steps"].as_array_mut().unwrap();
    steps.retain(|step| !step["step"].as_str().unwrap().starts_with("judge:"));
    let run = steps.last_mut().unwrap();
    run["outcome"] = json!("CRASH");
    run["output"] = Value::Null;
    case["status"] = json!("CRASH");
    case["stage"] = json!("run");
    case["reason"] = json!("the process died by signal 11");
    case["metrics"] = Value::Null;
    case["numerics"] = Value::Null;
}

struct Liar<'a> {
    sound: &'a Value,
    all: Vec<Forged>,
}

/// The place of the step of a stage in a case.
fn step(contribution: &Value, case: usize, stage: &str) -> usize {
    let steps = contribution["cases"][case]["steps"].as_array().unwrap();
    steps
        .iter()
        .position(|step| step["step"].as_str().unwrap().starts_with(stage))
        .unwrap()
}

/// A place in a document: `cases[0].steps[1].key`; names hold no dot.
fn at<'v>(value: &'v mut Value, field: &str) -> &'v mut Value {
    let mut found = value;
    for part in field.split('.') {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        found = &mut found[name];
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            found = &mut found[index.parse::<usize>().unwrap()];
        }
    }
    found
}

impl Liar<'_> {
    fn text(&mut self, name: &str, text: impl Into<String>, field: &str, why: &'static str) {
        self.all.push(Forged {
            name: name.to_owned(),
            field: field.to_owned(),
            why,
            text: text.into(),
        });
    }

    /// A lie that is refused at `field`.
    fn lie(&mut self, name: &str, field: &str, why: &'static str, lie: impl FnOnce(&mut Value)) {
        let mut forged = self.sound.clone();
        lie(&mut forged);
        self.text(name, sealed(forged), field, why);
    }

    /// Other values of one field, each refused there.
    fn values(&mut self, field: &str, why: &'static str, values: impl IntoIterator<Item = Value>) {
        self.values_for(field, field, why, values);
    }

    /// Other values of one field, each refused at another one.
    fn values_for(
        &mut self,
        field: &str,
        refused: &str,
        why: &'static str,
        values: impl IntoIterator<Item = Value>,
    ) {
        for value in values {
            let name = format!("{field} = {value}");
            self.lie(&name, refused, why, |forged| *at(forged, field) = value);
        }
    }

    /// A line of the document of a case's step, with the key that it then has.
    fn line(
        &mut self,
        of: (usize, &str),
        line: &str,
        value: Option<&str>,
        refused: &str,
        why: &'static str,
    ) {
        let (case, stage) = of;
        let place = step(self.sound, case, stage);
        let name = format!("{stage} of case {case}: {line}: {value:?}");
        self.lie(&name, refused, why, |forged| {
            let step = &mut forged["cases"][case]["steps"][place];
            let document = step["document"].as_object_mut().unwrap();
            match value {
                Some(value) => drop(document.insert(line.to_owned(), json!(value))),
                None => drop(document.remove(line)),
            }
            rekey(step);
        });
    }
}

const MARKUP: &str = "it holds markup";
const UNSEEN: &str = "invisible character";
const SHAPE: &str = "it does not have the shape of a contribution";
const FILE: &str = "the file";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// All of them. `sound`: of two cases, `linear:cpu-fp32` and `linear:openvino-fp32`, both right.
pub(super) fn all(sound: &Value) -> Vec<Forged> {
    let mut liar = Liar {
        sound,
        all: Vec::new(),
    };
    shapes(&mut liar);
    heads(&mut liar);
    cases::names(&mut liar);
    cases::outcomes(&mut liar);
    cases::chains(&mut liar);
    evidence::runs(&mut liar);
    evidence::verdicts(&mut liar);
    evidence::figures(&mut liar);
    liar.all
}

fn shapes(liar: &mut Liar<'_>) {
    let whole = sealed(liar.sound.clone());
    liar.text("empty", "", FILE, "it is no JSON");
    liar.text(
        "cut short",
        &whole[..whole.len() / 2],
        FILE,
        "it is no JSON",
    );
    liar.text("a page", "<!doctype html>", FILE, "it is no JSON");
    liar.text("another document", "{\"version\": 1}", FILE, SHAPE);
    liar.text("a list", "[1]", "version", "this orch reads version 1");
    let padded = format!("{whole}{}", " ".repeat(33 << 20));
    liar.text("large", padded, FILE, "it cannot be read");
    liar.values(
        "version",
        "this orch reads version 1",
        [json!(0), json!(2), json!("1"), json!(null)],
    );
    for field in ["by", "cases", "machine", "digest", "devices"] {
        liar.lie(&format!("without {field}"), FILE, SHAPE, |forged| {
            forged.as_object_mut().unwrap().remove(field);
        });
    }
    liar.lie("a step without its key", FILE, SHAPE, |forged| {
        let step = forged["cases"][0]["steps"][0].as_object_mut().unwrap();
        step.remove("key");
    });
    for field in [
        "note",
        "cases[0].note",
        "cases[0].steps[0].note",
        "machine.name",
    ] {
        liar.lie(&format!("with {field}"), FILE, SHAPE, |forged| {
            *at(forged, field) = json!("x")
        });
    }
    for field in [
        "cases[0].numerics.note",
        "cases[0].metrics.note",
        "cases[0].metrics.rounds[0].note",
    ] {
        let mut forged = liar.sound.clone();
        *at(&mut forged, field) = json!("x");
        liar.text(
            &format!("with {field}"),
            forged.to_string(),
            field,
            "no contribution has this field",
        );
    }
    liar.values_for(
        "machine.cores",
        FILE,
        SHAPE,
        [json!("4"), json!(-1), json!(1.5)],
    );
    liar.values_for(
        "cases[0].status",
        FILE,
        SHAPE,
        [json!("GREEN"), json!("pass")],
    );
    for digest in ["", ZEROS] {
        let mut forged = liar.sound.clone();
        forged["digest"] = json!(digest);
        liar.text(
            &format!("the digest {digest}"),
            forged.to_string(),
            "digest",
            "the digest of what the file holds",
        );
    }
    let mut edited = liar.sound.clone();
    edited["by"] = json!("bob");
    liar.text(
        "another name under the same digest",
        edited.to_string(),
        "digest",
        "the digest of what the file holds",
    );
    liar.text(
        "the same again",
        whole,
        "digest",
        "another file holds the same contribution",
    );
}

fn heads(liar: &mut Liar<'_>) {
    liar.values(
        "by",
        "a contributor's name",
        ["", " ann", "-ann", "ann;rm", "a\nb", "../ann"].map(Value::from),
    );
    liar.values("by", "a contributor's name", [json!("a".repeat(61))]);
    liar.values(
        "by",
        MARKUP,
        ["<b>ann</b>", "<script>alert(1)</script>"].map(Value::from),
    );
    liar.values(
        "by",
        UNSEEN,
        ["an\u{202e}na", "ann\u{0}", "an\u{200b}n", "\u{1b}[31mann"].map(Value::from),
    );
    liar.values(
        "made",
        "it lies in the future",
        [json!("2999-01-01T00:00:00Z")],
    );
    liar.values(
        "made",
        "it is no moment",
        [
            "yesterday",
            "2026-02-30T00:00:00Z",
            "2026-01-01T00:00:00+01:00",
            "",
        ]
        .map(Value::from),
    );
    liar.values(
        "orch",
        "no version of orch",
        ["", "new", "1.0; rm"].map(Value::from),
    );
    liar.values(
        "spec",
        "the site is of the spec",
        ["other.yaml", "", "specs/all.yaml"].map(Value::from),
    );
    let digest = "a digest has 64 hexadecimal digits";
    liar.values(
        "machine.fingerprint",
        digest,
        ["", "abc", &"A".repeat(64), &"g".repeat(64)].map(Value::from),
    );
    liar.values("machine.computing", digest, [json!("0")]);
    liar.values(
        "machine.cores",
        "no machine has so many",
        [json!(0), json!(1_000_000)],
    );
    liar.values(
        "machine.memory_bytes",
        "no machine has so much",
        [json!(0), json!(u64::MAX)],
    );
    liar.values(
        "machine.os",
        MARKUP,
        [json!("<img src=x onerror=alert(1)>")],
    );
    liar.values(
        "machine.cpu",
        "a text has at most",
        [json!("x".repeat(20_000))],
    );
    liar.lie(
        "an unknown backend",
        "devices.abacus",
        "no backend is called so",
        |forged| {
            forged["devices"]["abacus"] = forged["devices"]["cpu"].clone();
        },
    );
    liar.lie(
        "a backend without devices",
        "devices.cpu",
        "has a device",
        |forged| forged["devices"]["cpu"] = json!([]),
    );
    liar.lie(
        "a backend that nothing ran on",
        "devices.cuda",
        "no case ran on this backend",
        |forged| {
            forged["devices"]["cuda"] = forged["devices"]["cpu"].clone();
        },
    );
    liar.lie(
        "no device of the backend",
        "cases[1].backend",
        "the machine has no device",
        |forged| {
            forged["devices"]
                .as_object_mut()
                .unwrap()
                .remove("openvino");
        },
    );
    let run = step(liar.sound, 1, "run");
    let field = format!("cases[1].steps[{run}].document.device.");
    liar.lie("another device", &field, "the run's key names", |forged| {
        forged["devices"]["openvino"][0]["id"] = json!("openvino:GPU");
    });
}
