//! Transformers.js: a whole task, in a real browser.

use serde_json::json;

use super::browser::{self, CHROMIUM, in_page};
use super::{
    Artefact, Code, Conversion, Converter, From, Half, Library, Pair, Part, Requirement, RunParams,
    Runtime, WORKER, by_precision, code, parts,
};
use crate::base::Precision::Fp32;
use crate::device::{BackendRow, backends};
use crate::runtime::transformers_js::execute;
use crate::toolchain::{EnvName, Tool};

const NAME: &str = "transformers-js";

const LOADS: &[&Artefact] = &[&ARTEFACT];

const fn pair(backend: &'static BackendRow) -> Pair {
    // The page needs no Python, and the test only what has made its model.
    let template = "transformers_js";
    let test_env = EnvName::Torch;
    Pair {
        backend,
        loads: LOADS,
        template,
        test_env,
        half: Half::Unprobed,
    }
}

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[
        pair(&backends::WEBGPU_BROWSER),
        pair(&backends::WEBNN),
        pair(&backends::CPU),
    ],
    absent: None,
    execute: Some(execute),
    // It takes the options and the judgement of `browser`.
    code: Code::of(&[
        code::RUN,
        HERE,
        WORKER,
        browser::CODE,
        &[Part::Rust("runtime/transformers_js")],
    ]),
    tools: |_| {
        let packages = ["@huggingface/transformers", "onnxruntime-web"];
        let packages = packages.map(|package| Tool {
            env: EnvName::TransformersJs,
            package,
        });
        [CHROMIUM].into_iter().chain(packages).collect()
    },
    requires: |_| {
        [EnvName::Browser, EnvName::TransformersJs]
            .map(Requirement::Env)
            .into()
    },
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: false,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &[],
    lower: |request| in_page(NAME, request, ("packages", Library::TransformersJs)),
};

const HERE: &[Part] = parts!(Rust "catalogue/transformers_js.rs", "catalogue/browser.rs");

/// An ONNX model in the layout of Transformers.js, with a task for it to do.
pub static ARTEFACT: Artefact = Artefact {
    name: NAME,
    title: "the model with its task",
    precisions: |_| &[Fp32],
    always_half: None,
    ready: &[],
    // A task is compared with what the same task gives in Python.
    holds_reference: true,
    needs_class: false,
    ranged: &[],
    conversions: &[&CONVERT],
    label: |_| NAME.into(),
    made_by: |wanted| Some((&CONVERT, json!({"texts": wanted.texts}))),
};

static CONVERT: Conversion = Conversion {
    name: "convert.transformers-js",
    inputs: &[("model", From::Model), ("onnx", From::Onnx)],
    env: |_| EnvName::Torch,
    packages: |_| {
        &[
            "torch",
            "transformers",
            "tokenizers",
            "pillow",
            "onnx",
            "onnxruntime",
            "numpy",
            "safetensors",
        ]
    },
    code: Code::of(&[code::CONVERT, HERE, &[Part::Python("transformers_js")]]),
    by: Converter::Python("transformers_js"),
};
