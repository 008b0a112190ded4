//! Both ends of the joint between the plan and the workers: whatever a row sends, the worker of its name must read. Rows for
//! hardware that is not here are looked at as well.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::artefact::{Conversion, Converter};
use super::onnx::Int8Range;
use super::tests::{places, run};
use super::*;
use crate::device::Lease;
use crate::runtime::{self, android, browser, litert, openvino as ir, torch as libtorch, tract};

/// A GPU that the process of a run has for itself.
fn lease() -> Lease {
    serde_json::from_value(
        json!({"id": "cuda:0", "name": "a card", "env": {"CUDA_VISIBLE_DEVICES": "0"}}),
    )
    .unwrap()
}

/// The parameters as a worker gets them: with the paths of its libraries and the device that is lent to it.
fn completed(params: &Value, libraries: &[(&str, Library)], is_leased: bool) -> Value {
    let mut params = params.clone();
    for (name, _) in libraries {
        params[*name] = json!("/somewhere/library.so");
    }
    if is_leased {
        params["lease"] = json!(lease());
    }
    params
}

/// Reads parameters as the worker does.
fn read(worker: Worker, params: &Value) -> Result<(), String> {
    fn of<P: DeserializeOwned>(params: &Value) -> Result<(), String> {
        P::deserialize(params)
            .map(drop)
            .map_err(|e| format!("{e}: {params}"))
    }
    match worker {
        Worker::Orch("ort") => {
            of::<runtime::ort::Params>(params)?;
            let provider = params["ep"].as_str();
            match provider.is_none_or(runtime::ort::is_provider) {
                true => Ok(()),
                false => Err(format!("the worker knows no provider {provider:?}")),
            }
        }
        Worker::Orch("openvino") => of::<ir::Params>(params),
        Worker::Orch("litert") => of::<litert::Params>(params),
        Worker::Orch("tract") => of::<tract::Params>(params),
        Worker::Orch("android") => of::<android::Params>(params),
        Worker::Orch("browser" | "transformers-js") | Worker::Kept(_) => {
            of::<browser::Params>(params)
        }
        Worker::Torch => of::<libtorch::Params>(params),
        // The other end is Python's, which has an operation's parameters as its arguments.
        Worker::Python(_) => Ok(()),
        Worker::Orch(other) => Err(format!("the test knows no worker {other}")),
    }
}

#[test]
fn a_worker_reads_what_each_row_sends() {
    let times = TestMeasure::Times {
        warmup: 1,
        samples: 2,
        max_seconds: 3.0,
    };
    let places = places();
    for runtime in RUNTIMES {
        for pair in runtime.pairs {
            for measure in [times, TestMeasure::NONE] {
                let params = run(runtime, pair, measure);
                let request = RunRequest {
                    run: &params,
                    timeout_seconds: 1,
                    places: &places,
                };
                let name = format!("{} on {}", runtime.name, pair.backend.name);
                let lends = ["cuda", "rocm"].contains(&pair.backend.name);
                let mut calls = vec![(runtime.lower)(&request).unwrap()];
                if let Half::Shown(probe) = &pair.half {
                    calls.push((probe.lower)(&request).unwrap());
                }
                for call in calls {
                    let sent = completed(&call.params, &call.libraries, lends);
                    read(call.worker, &sent).unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
        }
    }
}

#[test]
fn a_worker_that_converts_reads_what_each_artefact_sends() {
    let mut seen = 0;
    for artefact in ARTEFACTS {
        for half in [false, true] {
            for precision in (artefact.precisions)(half) {
                let wanted = Wanted {
                    target: "target",
                    precision: *precision,
                    options: &Default::default(),
                    int8_range: Int8Range::default(),
                    export: &json!({"rewrites": false}),
                    tokens: &[],
                    texts: &[],
                    ready: None,
                };
                let Some((Conversion { by, .. }, params)) = (artefact.made_by)(&wanted) else {
                    continue;
                };
                let Converter::Worker {
                    runtime, libraries, ..
                } = by
                else {
                    continue;
                };
                let sent = completed(&params, libraries, false);
                read(Worker::Orch(runtime.name), &sent)
                    .unwrap_or_else(|e| panic!("{artefact:?} at {precision:?}: {e}"));
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no artefact is converted by a worker");
}

#[test]
fn options_that_a_row_cannot_send_are_refused_with_what_it_takes() {
    let places = places();
    let refused = |runtime: &'static Runtime, options: Value| {
        let params = RunParams {
            options: options.as_object().unwrap().clone(),
            ..run(runtime, &runtime.pairs[0], TestMeasure::NONE)
        };
        let request = RunRequest {
            run: &params,
            timeout_seconds: 1,
            places: &places,
        };
        format!("{:#}", (runtime.lower)(&request).map(drop).unwrap_err())
    };
    assert_eq!(
        refused(&torch::RUNTIME, json!({"nonsense": 7})),
        "`torch` takes no option `nonsense`; known: `threads`"
    );
    assert_eq!(
        refused(&python::RUNTIME, json!({"threads": 1})),
        "`python` takes no option `threads`; PyTorch's eager mode has none"
    );
    for runtime in [&torch::RUNTIME, &openvino::RUNTIME, &onnxruntime::RUNTIME] {
        for threads in [json!("two"), json!(0), json!(-1), json!(1.5)] {
            let message = refused(runtime, json!({"threads": threads}));
            assert_eq!(
                message,
                format!("the option `threads` is {threads}; it takes a whole number, at least 1")
            );
        }
    }
    assert_eq!(
        refused(&super::tract::RUNTIME, json!({"threads": 2})),
        "`tract` takes no option `threads`; it computes on one thread"
    );
    let message = refused(&super::litert::RUNTIME, json!({"threads": 2}));
    assert!(message.contains("unknown field `threads`"), "{message}");
}
