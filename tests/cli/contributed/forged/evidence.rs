//! Lies about what a case rests on: its run, its verdict and its times.

use serde_json::{Value, json};

use super::{Liar, ZEROS, rekey, step};

pub(super) fn runs(liar: &mut Liar<'_>) {
    let run = step(liar.sound, 0, "run");
    let judge = step(liar.sound, 0, "judge");
    let of = |step: usize, line: &str| format!("cases[0].steps[{step}].document.{line}");
    liar.line(
        (0, "run"),
        "param.runtime",
        Some("\"openvino\""),
        "cases[0].runtime",
        "its run has",
    );
    liar.line(
        (0, "run"),
        "param.backend",
        Some("\"cuda\""),
        "cases[0].backend",
        "its run has",
    );
    liar.line(
        (0, "run"),
        "param.precision",
        Some("\"fp16\""),
        "cases[0].precision",
        "its run has",
    );
    let no_run = "these are no parameters of a run";
    liar.line(
        (0, "run"),
        "param.runtime",
        Some("\"abacus\""),
        &of(run, "param"),
        no_run,
    );
    liar.line(
        (0, "run"),
        "param.backend",
        Some("\"abacus\""),
        &of(run, "param"),
        no_run,
    );
    liar.line(
        (0, "run"),
        "param.precision",
        None,
        &of(run, "param"),
        no_run,
    );
    liar.line(
        (0, "run"),
        "param.device",
        Some("cpu"),
        &of(run, "param"),
        no_run,
    );
    liar.values(
        "cases[0].runtime",
        "its run has",
        [json!("openvino"), json!("")],
    );
    liar.values("cases[0].backend", "its run has", [json!("openvino")]);
    liar.line(
        (0, "run"),
        "host",
        Some(ZEROS),
        &of(run, "host"),
        "the contribution is of a machine",
    );
    liar.line(
        (0, "run"),
        "host",
        None,
        &of(run, "host"),
        "the contribution is of a machine",
    );
    liar.values_for(
        "machine.fingerprint",
        &of(run, "host"),
        "the contribution is of a machine",
        [json!(ZEROS)],
    );
    liar.line(
        (0, "run"),
        "param.options.threads",
        Some("1"),
        &of(run, "param.options.threads"),
        "the site's spec has",
    );
    liar.line(
        (0, "run"),
        "param.properties.gpu",
        Some("\"h100\""),
        &of(run, "param.properties"),
        "another machine performed it",
    );
    liar.lie(
        "a run by another package",
        &of(run, "tool."),
        "computes there with",
        |forged| {
            let step = &mut forged["cases"][0]["steps"][run];
            step["document"]["tool.abacus"] = json!("1.0+000000000000");
            rekey(step);
            forged["cases"][0]["packages"]["abacus"] = json!("1.0+000000000000");
        },
    );
    liar.lie(
        "a cell of a GPU that is not there",
        "cases[0].backend",
        "the machine has no device",
        |forged| {
            let case = &mut forged["cases"][0];
            case["backend"] = json!("cuda");
            let step = &mut case["steps"][run];
            step["document"]["param.backend"] = json!("\"cuda\"");
            step["document"]["param.device"] = json!("\"cuda:0\"");
            let tool = step["document"]["tool.onnxruntime"].clone();
            step["document"]
                .as_object_mut()
                .unwrap()
                .remove("tool.onnxruntime");
            step["document"]["tool.onnxruntime-gpu"] = tool.clone();
            rekey(step);
            let packages = case["packages"].as_object_mut().unwrap();
            packages.insert("onnxruntime-gpu".to_owned(), tool);
            forged["devices"].as_object_mut().unwrap().remove("cpu");
        },
    );
    liar.line(
        (0, "judge"),
        "param.precision",
        Some("\"int8\""),
        &of(judge, "param.precision"),
        "the case is at fp32",
    );
    liar.line(
        (0, "judge"),
        "param.tolerance.atol",
        Some("100.0"),
        "cases[0].numerics.tolerance",
        "it was judged by",
    );
    liar.values_for(
        "cases[0].numerics.tolerance.rtol",
        "cases[0].numerics.tolerance",
        "it was judged by",
        [json!(0.5)],
    );
    liar.lie(
        "looser bounds, and all figures by them",
        "cases[0].numerics.tolerance",
        "the site's own case is held to",
        |forged| {
            let case = &mut forged["cases"][0];
            let step = &mut case["steps"][judge];
            step["document"]["param.tolerance.rtol"] = json!("0.5");
            rekey(step);
            case["numerics"]["tolerance"]["rtol"] = json!(0.5);
            case["numerics"]["looser"] = json!(["rtol"]);
        },
    );
    liar.lie(
        "looser bounds that are not named so",
        "cases[0].numerics.looser",
        "looser than orch's own",
        |forged| {
            let case = &mut forged["cases"][0];
            let step = &mut case["steps"][judge];
            step["document"]["param.tolerance.rtol"] = json!("0.5");
            rekey(step);
            case["numerics"]["tolerance"]["rtol"] = json!(0.5);
        },
    );
}

pub(super) fn verdicts(liar: &mut Liar<'_>) {
    let numerics = "cases[0].numerics";
    let of = |field: &str| format!("{numerics}.{field}");
    liar.values(numerics, "was judged", [Value::Null]);
    liar.values(&of("passed"), "the verdict is NUMERICS", [json!(false)]);
    for (field, values) in [
        ("max_abs", [json!(1.0), json!(1e9)]),
        ("mae", [json!(0.5), json!(-1.0)]),
        ("worst", [json!(0.9), json!(2.0)]),
    ] {
        liar.values(&of(field), "the worst of its tensors", values);
    }
    liar.values(
        &of("cosine"),
        "the worst of its tensors",
        [json!(0.5), Value::Null],
    );
    liar.values(&of("snr_db"), "the worst of its tensors", [json!(1.0)]);
    let y = "tensors.y";
    liar.values(
        &of(&format!("{y}.over")),
        "it lies between",
        [json!(1.5), json!(-0.1)],
    );
    liar.values(
        &of(&format!("{y}.scale")),
        "it lies between",
        [json!(0.0), json!(-1.0)],
    );
    liar.values(
        &of(&format!("{y}.max_abs")),
        "it lies between",
        [json!(-1.0)],
    );
    liar.values(&of(&format!("{y}.cosine")), "it lies between", [json!(1.5)]);
    liar.lie(
        "outputs beyond their bound",
        &of(y),
        "the verdict is NUMERICS",
        |forged| {
            let numerics = &mut forged["cases"][0]["numerics"];
            for (field, value) in [("max_abs", 1e4), ("worst", 50.0), ("mae", 10.0)] {
                numerics["tensors"]["y"][field] = json!(value);
                numerics[field] = json!(value);
            }
            numerics["tensors"]["y"]["over"] = json!(0.5);
        },
    );
    liar.lie(
        "a bound that is broken by nothing",
        &of("tensors.y.over"),
        "the share of such values",
        |forged| {
            let numerics = &mut forged["cases"][0]["numerics"];
            for (field, value) in [("max_abs", 1e4), ("worst", 50.0), ("mae", 10.0)] {
                numerics["tensors"]["y"][field] = json!(value);
                numerics[field] = json!(value);
            }
        },
    );
    liar.lie(
        "a cosine below its bound",
        &of(y),
        "cosine 0.500000 is below",
        |forged| {
            forged["cases"][0]["numerics"]["tensors"]["y"]["cosine"] = json!(0.5);
            forged["cases"][0]["numerics"]["cosine"] = json!(0.5);
        },
    );
    liar.lie(
        "noise above its bound",
        &of(y),
        "SNR 10.000000 is below",
        |forged| {
            forged["cases"][0]["numerics"]["tensors"]["y"]["snr_db"] = json!(10.0);
            forged["cases"][0]["numerics"]["snr_db"] = json!(10.0);
        },
    );
    liar.lie(
        "nothing compared",
        &of("tensors"),
        "nothing was compared",
        |forged| {
            let numerics = &mut forged["cases"][0]["numerics"];
            numerics["tensors"] = json!({});
            for field in ["max_abs", "mae", "worst"] {
                numerics[field] = json!(0.0);
            }
            numerics["cosine"] = Value::Null;
            numerics["snr_db"] = Value::Null;
        },
    );
    liar.values(
        &of("control"),
        "without the outputs of another input",
        [Value::Null],
    );
    liar.lie(
        "a control that is the same",
        &of("control.differs_by"),
        "could not be told from a right one",
        |forged| {
            forged["cases"][0]["numerics"]["control"]["differs_by"] = json!(0.0);
        },
    );
    liar.lie(
        "a control that would pass",
        &of("control.undecided"),
        "the verdict is INDECISIVE",
        |forged| {
            forged["cases"][0]["numerics"]["control"]["undecided"] = json!(["y"]);
        },
    );
    liar.lie(
        "a slice that is wrong",
        &of("slices.y.wrong"),
        "the verdict is NUMERICS",
        |forged| {
            forged["cases"][0]["numerics"]["slices"] =
                json!({"y": [{"axis": 1, "of": 3, "own": 1, "wrong": [1]}]});
        },
    );
    liar.lie(
        "a slice that proves nothing",
        &of("slices.y.undecided"),
        "the verdict is INDECISIVE",
        |forged| {
            forged["cases"][0]["numerics"]["slices"] =
                json!({"y": [{"axis": 1, "of": 3, "own": 1, "undecided": [1]}]});
        },
    );
    liar.lie(
        "generated tokens that are wrong",
        &of("generation.wrong"),
        "the verdict is NUMERICS",
        |forged| {
            forged["cases"][0]["numerics"]["generation"] =
                json!({"asked": 8, "agreed": 2, "wrong": "token 3 of row 0"});
        },
    );
    liar.lie(
        "a layer that may be left out",
        &of("dropped.differs_by"),
        "the verdict is INDECISIVE",
        |forged| {
            forged["cases"][0]["numerics"]["dropped"] =
                json!({"layer": "l", "differs_by": 0.0, "worst": 0.0});
        },
    );
}

pub(super) fn figures(liar: &mut Liar<'_>) {
    let metrics = "cases[0].metrics";
    let of = |field: &str| format!("{metrics}.{field}");
    let made = "its rounds and samples make it";
    liar.values(metrics, "it was timed", [Value::Null]);
    for field in [
        "median_ms",
        "min_ms",
        "max_ms",
        "load_ms",
        "first_ms",
        "per_second",
    ] {
        liar.values(&of(field), made, [json!(0.001), json!(9e9)]);
    }
    liar.values(&of("p90_ms"), made, [json!(0.001)]);
    liar.values(&of("warmup"), made, [json!(9999)]);
    liar.values(&of("samples"), made, [json!(9999)]);
    liar.values(&of("remarks"), made, [json!(["nothing disturbed it"])]);
    liar.values(&of("statistic.ms"), made, [json!(0.0001)]);
    let noisy = liar.sound["cases"][0]["metrics"]["noisy"]
        .as_bool()
        .unwrap();
    liar.values(&of("noisy"), made, [json!(!noisy)]);
    liar.values(&of("rounds"), "figures are made of rounds", [json!([])]);
    liar.values(
        &of("rounds[0].round"),
        "rounds are counted from 1",
        [json!(2)],
    );
    liar.values(
        &of("rounds[0].median_ms"),
        "that of its samples is",
        [json!(0.001), json!(1e3)],
    );
    liar.values(
        &of("rounds[0].min_ms"),
        "that of its samples is",
        [json!(0.0001)],
    );
    liar.values(&of("rounds[0].samples"), "there are", [json!(1_000_000)]);
    liar.values(&of("rounds[0].samples"), "a round has samples", [json!(0)]);
    liar.values(
        &of("rounds[0].load_ms"),
        "no time is such",
        [json!(0.0), json!(-1.0), json!(1e12)],
    );
    liar.values_for(
        &of("samples_ms[0]"),
        &of("samples_ms"),
        "no time is such",
        [json!(0.0), json!(-0.5), json!(1e300)],
    );
    liar.lie(
        "a sample more",
        &of("samples_ms"),
        "are of no round",
        |forged| {
            forged["cases"][0]["metrics"]["samples_ms"]
                .as_array_mut()
                .unwrap()
                .push(json!(1.0));
        },
    );
    liar.lie(
        "faster samples",
        &of("rounds[0].median_ms"),
        "that of its samples is",
        |forged| {
            for sample in forged["cases"][0]["metrics"]["samples_ms"]
                .as_array_mut()
                .unwrap()
            {
                *sample = json!(sample.as_f64().unwrap() / 2.0);
            }
        },
    );
}
