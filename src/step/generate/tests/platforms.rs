//! Tests of the parts of a generated test that differ between platforms.

use super::*;

#[test]
fn a_file_brings_only_its_own_hardware() {
    let text = render_test(&context("fill-mask", "openvino")).unwrap();
    assert!(
        text.contains("openvino") && !text.contains("onnxruntime") && !text.contains("torch"),
        "{text}"
    );
    let text = render_test(&context("fill-mask", "cpu")).unwrap();
    assert!(
        !text.contains("CUDA") && !text.contains("openvino") && !text.contains("import torch"),
        "{text}"
    );
}

#[test]
fn nvidia_s_libraries_come_out_of_its_packages_and_compute_no_tf32() {
    let off = "os.environ[\"NVIDIA_TF32_OVERRIDE\"] = \"0\"\n";
    let text = render_test(&context("fill-mask", "cuda")).unwrap();
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words} is not in {text}"))
    };
    assert!(
        at(off) < at("runtime().preload_dlls()")
            && at("runtime().preload_dlls()") < at("return strict_session(")
    );
    assert!(text.contains("\"use_tf32\": \"0\"") && !text.contains("Tensorrt"));
    assert!(
        !render_test(&context("fill-mask", "rocm"))
            .unwrap()
            .contains("preload_dlls")
    );
    let plain = context("fill-mask", "cuda");
    let with_tf32 = TestContext {
        options: BTreeMap::from([("use_tf32".to_owned(), json!(1))]),
        ..plain
    };
    assert!(!render_test(&with_tf32).unwrap().contains(off));
    let tensorrt = render_test(&TestContext {
        device: "tensorrt:1".to_owned(),
        ..context("fill-mask", "cuda")
    })
    .unwrap();
    assert!(
        tensorrt.contains("    \"tensorrt\": \"TensorrtExecutionProvider\",\n    \"cuda\""),
        "{tensorrt}"
    );
    assert!(
        tensorrt.contains("\"tensorrt\": {\"trt_engine_cache_enable\": \"0\"")
            && tensorrt.contains(off)
    );
}

#[test]
fn a_browser_is_looked_for_where_it_is_installed() {
    let text = render_test(&context("fill-mask", "webnn")).unwrap();
    for place in [crate::browser::BINARY, crate::browser::ORT_WEB] {
        assert!(text.contains(&format!("\"{place}\"")), "{place}");
    }
    let text = render_test(&context("fill-mask", "tasks")).unwrap();
    assert!(
        text.contains(r#""transformers-js", "node_modules""#) && !text.contains("ORCH_ORT_WEB"),
        "{text}"
    );
}

#[test]
fn the_golden_file_is_current() {
    let text = render_test(&context("fill-mask", "openvino")).unwrap();
    assert_golden("test_tiny_openvino-fp16.py", &text);
}

#[test]
fn an_unknown_pair_of_runtime_and_backend_is_named() {
    let mut ctx = context("fill-mask", "cpu");
    ctx.backend = &backends::WEBNN;
    let error = render_test(&ctx).unwrap_err().to_string();
    assert_eq!(
        error,
        "target `cpu`: there is no template of a test for runtime `ort` on backend `webnn`"
    );
}

#[test]
fn an_unknown_pipeline_template_is_an_error() {
    let mut ctx = context("fill-mask", "cpu");
    ctx.template = "smell".to_owned();
    let error = render_test(&ctx).unwrap_err().to_string();
    assert!(error.contains("pipelines/smell.py.j2"), "{error}");
}

#[test]
fn openvino_gets_what_a_target_with_half_computes_in() {
    let plain = context("fill-mask", "openvino");
    assert!(
        render_test(&plain)
            .unwrap()
            .contains("PRECISION_HINT = \"f32\"\n")
    );
    let half = TestContext {
        computes: Some("f16".to_owned()),
        ..plain
    };
    assert!(
        render_test(&half)
            .unwrap()
            .contains("PRECISION_HINT = \"f16\"\n")
    );
}
