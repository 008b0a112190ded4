//! Models in other precisions than fp32, and what was counted in their files.

use std::collections::BTreeSet;

use super::*;

/// The files that users ship, beside what they were made of: fp16 and int8 ONNX, TorchScript in half precision.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_text_model_and_a_convolution_pass_at_fp16_and_int8() {
    let sandbox = suite();
    let row = "artefact: torchscript\n    precisions: [fp32]\n  eager-cpu:";
    edit(
        &sandbox,
        "specs/targets.yaml",
        row,
        "artefact: torchscript\n    precisions: [fp16, bf16]\n  eager-cpu:",
    );
    let chosen = [
        "-m",
        "bert",
        "-m",
        "detr",
        "-t",
        "cpu-small",
        "-t",
        "torch-cpu",
    ];
    let run = [&["run", "specs/all.yaml", "--json"], &chosen[..]].concat();
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 8), ("passed", 8)])
        .json();
    for (name, case) in cases(&document) {
        let model = text(&case["model"]);
        match text(&case["precision"]) {
            "fp16" if case["target"] == "cpu-small" => {
                let made = &case["facts"][format!("convert:{model}:onnx-fp16")];
                assert!(
                    made["weights"].get("fp32").is_none() && made["nodes"].get("fp32").is_none(),
                    "{name}: {made}"
                );
                assert!(
                    artefact(&sandbox, &format!("{model}/onnx-fp16"))
                        .join("model.onnx")
                        .is_file()
                );
            }
            "int8" => {
                let made = &case["facts"][format!("convert:{model}:onnx-int8")];
                assert!(
                    made["nodes"]["integer"].as_u64().unwrap() > 10,
                    "{name}: {made}"
                );
            }
            _ => {}
        }
        // No run is as exact as fp32, or it is fp32 under another name.
        let off = case["numerics"]["max_abs"].as_f64().unwrap();
        assert!(off > 1e-4, "{name}: {off}");
    }
    the_generated_test_stands_alone(&sandbox, cases(&document)["bert:cpu-small-fp16"]);
}

/// Weights in the reduced range, so that it is right on every CPU, with VNNI or without.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_text_and_a_vision_model_pass_at_calibrated_int8() {
    let sandbox = suite();
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-m",
        "bert",
        "-m",
        "vit",
        "-t",
        "cpu-static",
        "-t",
        "openvino-static",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 4), ("passed", 4)])
        .json();
    for (name, case) in cases(&document) {
        let model = text(&case["model"]);
        let is_onnx = case["target"] == "cpu-static";
        let artefact = if is_onnx {
            "onnx-int8-static"
        } else {
            "openvino-int8-static"
        };
        let made = &case["facts"][format!("convert:{model}:{artefact}")];
        assert_eq!(made["range"], "reduced", "{name}: {made}");
        assert!(
            text(&made["scheme"]).contains("calibrated on 16 other sets of inputs"),
            "{name}: {made}"
        );
        let quantised = if is_onnx {
            &made["nodes"]["integer"]
        } else {
            &made["quantised_activations"]
        };
        assert!(quantised.as_u64().unwrap() >= 8, "{name}: {made}");
        // No run is as exact as fp32, or it is fp32 under another name.
        let off = case["numerics"]["max_abs"].as_f64().unwrap();
        assert!(off > 1e-3, "{name}: {off}");
    }
    for case in [
        "bert:cpu-static-int8-static",
        "vit:openvino-static-int8-static",
    ] {
        the_generated_test_stands_alone(&sandbox, cases(&document)[case]);
    }
    sandbox.run(run).success().stdout_has("\"executed\": 0");
}

/// On the emulator, and in the file that its compiler reads: no product of it is left to fp16.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_text_and_a_vision_model_pass_on_qnn_with_activations_of_8_and_16_bits() {
    let sandbox = suite();
    let row = "  cuda-half: {";
    let wide = "  cpu-wide: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [a16w8]}\n";
    edit(&sandbox, "specs/targets.yaml", row, &format!("{wide}{row}"));
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-m",
        "bert",
        "-m",
        "vit",
        "-t",
        "qnn-static",
        "-t",
        "cpu-wide",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 6), ("passed", 4)])
        .json();
    let found = cases(&document);
    for (name, case) in &found {
        let model = text(&case["model"]);
        let precision = text(&case["precision"]);
        if case["target"] == "cpu-wide" {
            assert_eq!(case["status"], "SKIP_UNSUPPORTED", "{name}");
            assert!(
                text(&case["reason"]).contains("no kernels for 16-bit activations on the CPU"),
                "{name}"
            );
            continue;
        }
        let made = &case["facts"][format!("convert:{model}:qdq-{precision}")];
        assert_eq!(
            made["quantised_products"], made["products"],
            "{name}: {made}"
        );
        assert!(made["products"].as_u64().unwrap() >= 18, "{name}: {made}");
        assert!(
            text(&made["scheme"]).contains("calibrated on 16 other sets of inputs"),
            "{name}: {made}"
        );
        assert_eq!(
            case["placement"]
                .as_object()
                .unwrap()
                .keys()
                .collect::<Vec<_>>(),
            ["QNNExecutionProvider"]
        );
    }
    // What 8 bits leave of an output are a few of their 256 steps; half precision would leave other numbers everywhere.
    let steps = |case: &str| {
        sandbox
            .run([
                "output",
                "--latest",
                &format!("run:{case}"),
                "--to",
                &format!("made/{case}"),
            ])
            .success();
        let bytes = fs::read(sandbox.path(&format!("made/{case}/outputs.safetensors"))).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        tensors
            .tensor("logits")
            .unwrap()
            .data()
            .chunks(4)
            .map(<[u8]>::to_vec)
            .collect::<BTreeSet<_>>()
            .len()
    };
    let few = steps("bert:qnn-static-int8-static");
    let many = steps("bert:qnn-static-a16w8");
    assert!(few <= 256 && many > 1000, "{few} {many}");
    for case in ["bert:qnn-static-a16w8", "vit:qnn-static-int8-static"] {
        the_generated_test_stands_alone(&sandbox, found[case]);
    }
    sandbox.run(run).success().stdout_has("\"executed\": 0");
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_decoder_passes_with_weights_of_4_bits() {
    let sandbox = suite();
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-m",
        "llama",
        "-t",
        "cpu-int4",
        "-t",
        "openvino-int4",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("cases", 2), ("passed", 2)])
        .json();
    for (name, case) in cases(&document) {
        let runtime = if case["target"] == "cpu-int4" {
            "onnx"
        } else {
            "openvino"
        };
        let made = &case["facts"][format!("convert:llama:{runtime}-int4")];
        let of = |kind: &str| made["weights"][kind].as_u64().unwrap_or_default();
        assert!(of("int4") > 3 * (of("fp32") + of("int8")), "{name}: {made}");
        assert!(
            made["nodes"]["int4"].as_u64().unwrap() >= 14,
            "{name}: {made}"
        );
        // No run is as exact as 8 bits, or it is those under another name.
        let off = case["numerics"]["max_abs"].as_f64().unwrap();
        assert!(off > 0.2, "{name}: {off}");
        the_generated_test_stands_alone(&sandbox, case);
    }
}
