//! What vendors' libraries print cannot reach the protocol: it has a descriptor of its own.

use std::process::Command;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;

/// Prints on both streams when a worker loads it, and twice again when the worker ends, as native SDKs do. In an answer's
/// own words, so that it would be taken for one.
const NOISE: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char line[] = "{\"event\":\"result\",\"id\":0,\"output\":{\"status\":\"error\",\"reason\":\"noise\"}}\n";
static void noise(void) { for (int fd = 1; fd <= 2; fd++) if (write(fd, line, strlen(line)) < 0) _exit(9); }
static int is_worker;
__attribute__((constructor)) static void begin(void) {
    is_worker = getenv("ORCH_RESULT_FD") != NULL;
    if (is_worker) { noise(); atexit(noise); }
}
__attribute__((destructor)) static void end(void) { if (is_worker) noise(); }
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_library_that_prints_from_its_exit_handlers_changes_nothing() {
    let sandbox = sandbox(RIGHT).file("noise.c", NOISE);
    let source = sandbox.path("noise.c");
    let library = sandbox.path("noise.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.unwrap().success());
    let sandbox = sandbox.env("LD_PRELOAD", library.display().to_string());
    sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("passed", 2), ("failed", 0)]);
    for step in ["run:linear:cpu-fp32", "run:linear:openvino-fp32"] {
        let log = sandbox.run(["log", step, "--path"]).success().stdout;
        let said = std::fs::read_to_string(log.trim()).unwrap();
        assert_eq!(said.matches("noise").count(), 6, "{step}: {said}");
    }
}
