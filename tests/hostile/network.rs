//! The network is for steps that ask for it, and that one asks is in its key.

use std::net::TcpListener;

use crate::support::Sandbox;

#[test]
fn a_step_reaches_the_network_only_on_request_and_its_key_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}",
        listener.local_addr().unwrap().port()
    );
    let argv = serde_json::json!([
        "bash",
        "-c",
        format!("({connect}) && echo yes > out || echo no > out")
    ]);
    let spec = |asks: &str| {
        format!("version: 1\ncommands:\n  one: {{argv: {argv}, outputs: [out]{asks}}}\n")
    };
    let sandbox = Sandbox::new();
    let run = |asks: &str, executed: u64| {
        sandbox.write("spec.yaml", spec(asks));
        sandbox
            .run(["run", "spec.yaml", "--json"])
            .success()
            .summary([("executed", executed), ("failed", 0)]);
        sandbox
            .run([
                "output",
                "command:one",
                "--spec",
                "spec.yaml",
                "--cat",
                "out",
            ])
            .success()
            .stdout
    };
    let without = if orch::confine::Enforced::here().denies_tcp() {
        "no\n"
    } else {
        "yes\n"
    };
    assert_eq!(run("", 1), without);
    sandbox.write("spec.yaml", spec(", network: true"));
    sandbox
        .run(["explain", "command:one", "--spec", "spec.yaml"])
        .success()
        .stdout_has("param.network changed (absent => true)");
    assert_eq!(run(", network: true", 1), "yes\n");
    // Each has its own result.
    assert_eq!(run("", 0), without);
    assert_eq!(run(", network: true", 0), "yes\n");
}
