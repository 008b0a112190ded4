//! Files with names that other machines would not take.

use crate::support::Sandbox;

fn made(name: &str) -> Sandbox {
    let argv = serde_json::json!([
        "python3",
        "-c",
        "import sys; open('out/' + sys.argv[1], 'w').write('x')",
        name
    ]);
    let argv = argv
        .to_string()
        .replace("import sys;", "import os, sys; os.makedirs('out');");
    Sandbox::new().file(
        "spec.yaml",
        format!("version: 1\ncommands:\n  one: {{argv: {argv}, outputs: [out]}}\n"),
    )
}

/// Whatever is published, an archive of it is taken in by another machine.
#[test]
fn what_a_program_leaves_is_kept_if_all_machines_could() {
    for name in ["a\\b", "a\nb", "a\u{1b}[31mb"] {
        let sandbox = made(name);
        sandbox
            .run(["run", "spec.yaml"])
            .code(1)
            .stderr_has("cannot be kept")
            .stderr_lacks("\u{1b}");
    }
    for name in ["ä \"'`", ".hidden", "-rf", "a:b"] {
        let sandbox = made(name);
        let other = Sandbox::new();
        sandbox.run(["run", "spec.yaml"]).success();
        sandbox
            .run(["cache", "export", "all.tar", "--all"])
            .success();
        let archive = sandbox.path("all.tar");
        other
            .run(["cache", "import", archive.to_str().unwrap()])
            .success();
        assert_eq!(
            other.output("command:one", &format!("out/{name}")),
            "x",
            "{name}"
        );
    }
}
