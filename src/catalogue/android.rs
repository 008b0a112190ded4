//! QNN on a phone, reached through `adb`.

use super::{
    Access, Code, Half, Library, Pair, Part, RunParams, Runtime, SharedFolder, WORKER, Worker,
    WorkerCall, by_precision, code, parts, qnn,
};
use crate::device::backends;
use crate::runtime::InstalledPath;
use crate::runtime::android::{Params, execute};
use crate::toolchain::EnvName;

const NAME: &str = "android";

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[Pair {
        backend: &backends::QNN_ANDROID,
        loads: &[&qnn::ARTEFACT],
        template: "android",
        test_env: EnvName::Ort,
        half: Half::Unprobed,
    }],
    absent: None,
    execute: Some(execute),
    code: Code::of(&[
        code::RUN,
        &[Part::Rust("catalogue/android.rs")],
        WORKER,
        CODE,
    ]),
    tools: |_| vec![],
    requires: |_| vec![],
    server: None,
    runs_the_test: false,
    profiles: false,
    windows: None,
    composes: false,
    // A phone is never shared: of its memory nothing is known.
    needs: |run| run.own_device(true),
    computes: by_precision,
    failures_stand: false,
    versions: &["qnn_sdk"],
    lower: |request| {
        let RunParams {
            device,
            options,
            measure,
            ..
        } = request.run;
        let params = Params {
            adb: InstalledPath::LATER,
            sdk: InstalledPath::LATER,
            device: device.clone(),
            options: options.clone(),
            timeout_seconds: request.timeout_seconds,
            measure: measure.params(),
        };
        Ok(WorkerCall {
            libraries: vec![("adb", Library::Adb), ("sdk", Library::QnnSdk)],
            access: access(),
            ..WorkerCall::of(Worker::Orch(NAME), "run", &params)
        })
    },
};

/// `orch worker android`
const CODE: &[Part] = parts!(
    Rust "device/android.rs", "device/snapdragon.rs", "runtime/android", "runtime/onnx_external.rs", "runtime/onnx_file.rs",
        "runtime/onnx_proto.rs", "runtime/ort/options.rs", "runtime/ort/qnn.rs";
    Crate "prost"
);

/// A phone is reached through adb's server, which keeps its keys and its log where it will.
fn access() -> Access {
    Access {
        network: true,
        home: true,
        write: Vec::new(),
        shared: vec![SharedFolder::Android, SharedFolder::Temporary],
    }
}
