//! Commands that only look: they make no store, and install nothing.

use crate::support::Sandbox;

const SPEC: &str = "version: 1\ncommands:\n  a: {argv: [sh, -c, 'echo a > out'], outputs: [out]}\n";

#[test]
fn a_command_that_only_looks_makes_no_cache() {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    let commands: [(&[&str], i32); 17] = [
        (&["plan", "spec.yaml"], 0),
        (&["explain", "command:a", "--spec", "spec.yaml"], 0),
        (&["plan", "spec.yaml", "--format", "dot"], 0),
        (&["report", "spec.yaml"], 3),
        (&["output", "command:a", "--spec", "spec.yaml"], 3),
        (&["log", "command:a", "--spec", "spec.yaml"], 3),
        (&["history", "1"], 2),
        (&["history"], 0),
        (&["history", "--json"], 0),
        (&["history", "bert:cpu-fp32"], 2),
        (&["compare", "1", "2"], 2),
        (&["matrix"], 2),
        (&["capabilities"], 0),
        (&["devices"], 0),
        (&["doctor"], 0),
        (&["cache", "stats"], 0),
        (&["cache", "verify"], 0),
    ];
    for (command, code) in commands {
        let ended = sandbox.run(command).code(code);
        let made: Vec<_> = ["cache", "orch-out"]
            .into_iter()
            .filter(|name| sandbox.path(name).exists())
            .collect();
        assert!(made.is_empty(), "{command:?} makes {made:?}");
        ended.stderr_lacks("DuckDB");
    }
    // Nor does a run that names what is not there.
    for mistake in [["--step", "command:b"], ["-m", "nobody"], ["-t", "nothing"]] {
        let run = [&["run", "spec.yaml"][..], &mistake].concat();
        sandbox.run(run).code(2);
        assert!(!sandbox.path("cache").exists(), "{mistake:?}");
    }
    // A run makes one, and what looks then finds what it left.
    sandbox.run(["run", "spec.yaml"]).success();
    sandbox
        .run(["output", "command:a", "--spec", "spec.yaml", "--cat", "out"])
        .success()
        .stdout_has("a");
}
