//! What vendors' libraries print cannot reach the protocol: it has a descriptor of its own.

use std::process::Command;

use crate::support::Sandbox;

/// Prints on both streams when a worker loads it, and again when the worker ends, as native SDKs do. In an answer's own
/// words, so that it would be taken for one.
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
    let sandbox = Sandbox::new().file("noise.c", NOISE);
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(sandbox.path("noise.so"))
        .arg(sandbox.path("noise.c"))
        .status();
    assert!(built.unwrap().success());
    let devices = |sandbox: &Sandbox| {
        let document = sandbox.run(["devices", "--json"]).success().json();
        let told = |backend: &serde_json::Value| {
            (backend["id"].clone(), backend["status"].clone(), backend["available"].clone())
        };
        document["backends"].as_array().unwrap().iter().map(told).collect::<Vec<_>>()
    };
    let quiet = devices(&sandbox);
    assert!(!quiet.is_empty());
    let library = sandbox.path("noise.so").display().to_string();
    let noisy = sandbox.env("LD_PRELOAD", library);
    assert_eq!(devices(&noisy), quiet);
}
