//! What a program says may be read, and obeyed by no terminal.

use crate::support::Sandbox;

#[test]
fn a_terminal_gets_text_and_no_commands() {
    let script = "printf '\\033]0;pwned\\007\\033[31mred\\033[0m\\n10 %%\\r99 %%\\r\\033[2K\\033[8mgone wrong\\033]52;c;cHduZWQ=\\007\\n'; exit 3";
    let argv = serde_json::json!(["sh", "-c", script]);
    let spec = format!("version: 1\ncommands:\n  one: {{argv: {argv}, outputs: [out]}}\n");
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    for args in [
        &["run", "spec.yaml", "--color", "always"][..],
        &["log", "command:one"],
        &["history", "1"],
    ] {
        let ended = sandbox.run(args);
        let colours = ended.stderr.replace("\u{1b}[", "") + &ended.stdout.replace("\u{1b}[", "");
        assert!(
            !colours.contains(['\u{1b}', '\r', '\u{7}']),
            "{args:?}: {colours:?}"
        );
        assert!(!colours.contains("8mgone"), "hidden text: {colours:?}");
        assert!(colours.contains("gone wrong"), "{args:?}: {colours:?}");
    }
    sandbox
        .run(["log", "command:one"])
        .stdout_has("red\n10 % 99 % gone wrong");
    let coloured = sandbox.run(["log", "command:one", "--color", "always"]);
    coloured.stdout_lacks("\u{1b}[31m").stdout_has("\u{1b}[");
    // Whoever wants the bytes has the file.
    let log = sandbox
        .run(["log", "command:one", "--path"])
        .success()
        .stdout;
    assert!(std::fs::read(log.trim()).unwrap().contains(&0x1b));
}
