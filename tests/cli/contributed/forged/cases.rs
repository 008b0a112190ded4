//! Lies about cases: their names, how they ended, and the chain of their steps.

use serde_json::{Value, json};

use super::{Liar, MARKUP, ZEROS, crashes, step};

pub(super) fn names(liar: &mut Liar<'_>) {
    liar.values("cases", "it contributes nothing", [json!([])]);
    let twice = liar.sound["cases"][0].clone();
    liar.lie(
        "a case twice",
        "cases[2].case",
        "a case is contributed once",
        |forged| {
            forged["cases"].as_array_mut().unwrap().push(twice);
        },
    );
    let name = "a name has letters";
    liar.values(
        "cases[0].model",
        name,
        ["", "../linear", "li near", "línear"].map(Value::from),
    );
    liar.values(
        "cases[0].target",
        name,
        ["", "cpu/..", "-cpu"].map(Value::from),
    );
    liar.values(
        "cases[0].precision",
        "no precision is called so",
        ["fp7", "", "FP32"].map(Value::from),
    );
    let id = "the id of this model, target and precision";
    liar.values(
        "cases[0].case",
        id,
        [
            "linear:cpu-fp16",
            "other:cpu-fp32",
            "linear",
            "linear:cpu-fp32x",
        ]
        .map(Value::from),
    );
    liar.values_for("cases[0].model", "cases[0].case", id, [json!("other")]);
    liar.values_for("cases[0].target", "cases[0].case", id, [json!("openvino")]);
    liar.values_for("cases[0].precision", "cases[0].case", id, [json!("fp16")]);
    liar.lie(
        "a size of nothing",
        "cases[0].dims.batch",
        "a size is at least 1",
        |forged| forged["cases"][0]["dims"]["batch"] = json!(0),
    );
    for (field, value) in [
        ("family", json!("decoder-only")),
        ("task", json!("fill-mask")),
        ("pipeline", json!("vision")),
        ("type", json!("bert")),
        ("weights", json!("random")),
    ] {
        liar.values(
            &format!("cases[0].{field}"),
            "the site's own case has",
            [value],
        );
    }
    let moment = "it is no moment";
    liar.values(
        "cases[0].measured",
        moment,
        ["now", "2026-13-01T00:00:00Z"].map(Value::from),
    );
    liar.values(
        "cases[0].measured",
        "the contribution was made before",
        [json!("2998-01-01T00:00:00Z")],
    );
    liar.values("cases[0].steps[0].started", moment, [json!("")]);
    liar.values(
        "cases[0].steps[0].started",
        "the contribution was made before",
        [json!("2998-01-01T00:00:00Z")],
    );
    liar.values(
        "cases[0].metrics.rounds[0].measured",
        "the contribution was made before",
        [json!("2998-01-01T00:00:00Z")],
    );
}

pub(super) fn outcomes(liar: &mut Liar<'_>) {
    let never = "such a result is not contributed";
    liar.values(
        "cases[0].status",
        never,
        [
            "SKIP_UNAVAILABLE",
            "MOCK",
            "FLAKY",
            "XFAIL",
            "XPASS",
            "INCOMPLETE",
            "PASS_FALLBACK",
        ]
        .map(Value::from),
    );
    liar.values(
        "cases[0].status",
        "a run that was judged ends otherwise",
        ["FAIL", "CRASH", "OOM", "TIMEOUT", "SKIP_UNSUPPORTED"].map(Value::from),
    );
    liar.values(
        "cases[0].status",
        "its last step",
        ["NUMERICS", "INDECISIVE"].map(Value::from),
    );
    liar.values(
        "cases[0].stage",
        "its last step",
        ["run", "convert"].map(Value::from),
    );
    liar.values("cases[0].untimed", "its run says otherwise", [json!(true)]);
    liar.values(
        "cases[0].actual_device",
        "what was judged ran on a device",
        [Value::Null],
    );
    let judge = step(liar.sound, 0, "judge");
    liar.lie(
        "a pass without a verdict",
        "cases[0].status",
        "there is no verdict",
        |forged| {
            forged["cases"][0]["steps"]
                .as_array_mut()
                .unwrap()
                .remove(judge);
        },
    );
    liar.lie(
        "a crash with times",
        "cases[0].metrics",
        "has no times",
        |forged| {
            let metrics = forged["cases"][0]["metrics"].clone();
            crashes(&mut forged["cases"][0]);
            forged["cases"][0]["metrics"] = metrics;
        },
    );
    liar.lie(
        "a crash with a comparison",
        "cases[0].numerics",
        "was not judged",
        |forged| {
            let numerics = forged["cases"][0]["numerics"].clone();
            crashes(&mut forged["cases"][0]);
            forged["cases"][0]["numerics"] = numerics;
        },
    );
    liar.lie(
        "a reason with markup",
        "cases[0].reason",
        MARKUP,
        |forged| {
            crashes(&mut forged["cases"][0]);
            forged["cases"][0]["reason"] = json!("<a href='javascript:alert(1)'>why</a>");
        },
    );
}

pub(super) fn chains(liar: &mut Liar<'_>) {
    liar.values("cases[0].steps", "a result rests on steps", [json!([])]);
    let first = liar.sound["cases"][0]["steps"][0].clone();
    liar.lie(
        "a step twice",
        "cases[0].steps[1].step",
        "a step is contributed once",
        |forged| {
            forged["cases"][0]["steps"]
                .as_array_mut()
                .unwrap()
                .insert(1, first);
        },
    );
    liar.values(
        "cases[0].steps[0].step",
        "no step of a case",
        ["command:x", "", "run"]
            .map(Value::from)
            .into_iter()
            .take(2),
    );
    liar.values(
        "cases[0].steps[0].step",
        "it is no step of the case",
        ["generate:other", "run:linear:openvino-fp32"].map(Value::from),
    );
    let digest = "a digest has 64 hexadecimal digits";
    liar.values(
        "cases[0].steps[0].key",
        digest,
        ["", "abc", &"F".repeat(64)].map(Value::from),
    );
    liar.values(
        "cases[0].steps[0].key",
        "the digest of its document",
        [json!(ZEROS)],
    );
    liar.values(
        "cases[0].steps[0].output",
        digest,
        ["none"].map(Value::from),
    );
    liar.values(
        "cases[0].steps[0].output",
        "a step that passed made something",
        [Value::Null],
    );
    liar.values(
        "cases[0].steps[0].seconds",
        "no step takes so long",
        [json!(-1.0), json!(1e12)],
    );
    liar.lie(
        "a step that failed before the others",
        "cases[0].steps[0].outcome",
        "steps behind it were executed",
        |forged| {
            let step = &mut forged["cases"][0]["steps"][0];
            step["outcome"] = json!("FAIL");
            step["output"] = Value::Null;
        },
    );
    liar.lie(
        "a step that failed and made something",
        "cases[0].steps[0].output",
        "made nothing",
        |forged| {
            forged["cases"][0]["steps"][0]["outcome"] = json!("FAIL");
        },
    );
    let run = step(liar.sound, 0, "run");
    let judge = step(liar.sound, 0, "judge");
    let input = |step: usize, name: &str| format!("cases[0].steps[{step}].document.input.{name}");
    let nobody = "no step before it made this";
    liar.line(
        (0, "run"),
        "input.artefact",
        Some(ZEROS),
        &input(run, "artefact"),
        nobody,
    );
    liar.line(
        (0, "judge"),
        "input.model",
        Some(ZEROS),
        &input(judge, "model"),
        nobody,
    );
    liar.line(
        (0, "judge"),
        "input.result",
        Some(ZEROS),
        &input(judge, "result"),
        nobody,
    );
    liar.line(
        (0, "judge"),
        "input.result",
        Some("x"),
        &input(judge, "result"),
        digest,
    );
    let model = liar.sound["cases"][0]["steps"][0]["output"]
        .as_str()
        .unwrap()
        .to_owned();
    liar.line(
        (0, "judge"),
        "input.result",
        Some(&model),
        &input(judge, "result"),
        nobody,
    );
    liar.lie(
        "a run that made something else",
        &input(judge, "result"),
        nobody,
        |forged| {
            forged["cases"][0]["steps"][run]["output"] = json!(ZEROS);
        },
    );
    liar.values_for(
        "cases[0].steps[0].document.kind",
        "cases[0].steps[0].key",
        "the digest of its document",
        [json!("other")],
    );
    let generate = step(liar.sound, 0, "generate");
    let of_spec = |line: &str| format!("cases[0].steps[{generate}].document.{line}");
    liar.line(
        (0, "generate"),
        "kind",
        Some("other"),
        &of_spec("kind"),
        "the site's spec has",
    );
    liar.line(
        (0, "generate"),
        "param.seed",
        Some("12345"),
        &of_spec("param.seed"),
        "the site's spec has",
    );
    liar.lie(
        "another package",
        "cases[0].packages.abacus",
        "the keys of its steps have",
        |forged| {
            forged["cases"][0]["packages"]["abacus"] = json!("1.0");
        },
    );
    liar.lie(
        "another version",
        "cases[0].packages.onnxruntime",
        "the keys of its steps have",
        |forged| {
            forged["cases"][0]["packages"]["onnxruntime"] = json!("99.0");
        },
    );
    liar.lie(
        "a package less",
        "cases[0].packages",
        "is missing",
        |forged| {
            forged["cases"][0]["packages"]
                .as_object_mut()
                .unwrap()
                .remove("onnxruntime");
        },
    );
}
