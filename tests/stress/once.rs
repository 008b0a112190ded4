//! Many processes that want the same at the same time.

use crate::scene::complaints;
use crate::support::Sandbox;
use std::collections::BTreeSet;

const STEPS: usize = 200;

#[test]
fn four_at_a_time_do_each_of_many_steps_once() {
    let sandbox = Sandbox::new();
    let notes = sandbox.path("seen/notes");
    let mut spec = String::from("version: 1\ncommands:\n");
    for n in 0..STEPS {
        let script = format!(
            "echo B s{n} $PPID >> {0}; echo {n} > out; echo E s{n} $PPID >> {0}",
            notes.display()
        );
        spec.push_str(&format!(
            "  s{n}: {{argv: [sh, -c, '{script}'], outputs: [out], writable: [seen]}}\n"
        ));
    }
    sandbox.write("spec.yaml", spec);
    let runs: Vec<_> = (0..4)
        .map(|n| {
            sandbox.spawn([
                "run",
                "spec.yaml",
                "--json",
                "--jobs",
                "4",
                "--out-dir",
                &format!("out{n}"),
            ])
        })
        .collect();
    let executed: u64 = runs
        .into_iter()
        .map(|run| {
            let ended = sandbox.wait(run).success().stderr_lacks("warning");
            ended.json()["summary"]["executed"].as_u64().unwrap()
        })
        .sum();
    let scene = crate::scene::Scene {
        sandbox,
        steps: BTreeSet::new(),
    };
    let notes = scene.notes();
    assert_eq!(notes.len(), 2 * STEPS);
    assert_eq!(complaints(&notes, &BTreeSet::new()), Vec::<String>::new());
    assert_eq!(executed, STEPS as u64);
    scene.sandbox.run(["cache", "verify"]).success();
}
