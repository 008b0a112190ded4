//! A damaged store is noticed where it is read, told, and mended by running again.

use std::fs;
use std::path::PathBuf;

use crate::support::{Sandbox, WITHOUT_DEVICE, eventually, find, flip_at, flip_byte};

const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

/// One step that makes something, one that reads it.
const PAIR: &str = "version: 1
commands:
  maker: {argv: [sh, -c, 'echo made > made.txt'], outputs: [made.txt]}
  reader: {argv: [sh, -c, 'cat in/made.txt > read.txt; echo 1 >> read.txt'], inputs: {in: {step: 'command:maker'}}, outputs: [read.txt]}
";

fn pair() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", PAIR);
    sandbox.run(RUN).success().summary([("executed", 2)]);
    sandbox
}

/// A change of the reader alone, so that the next run needs the maker's tree.
fn change_reader(sandbox: &Sandbox) {
    sandbox.write("spec.yaml", PAIR.replace("echo 1", "echo 2"));
}

fn made(sandbox: &Sandbox) -> PathBuf {
    sandbox.blob("made\n")
}

/// Where the newest record of a step stands in the log: behind a header.
fn record_of(sandbox: &Sandbox, step: &str) -> usize {
    find(&sandbox.store("log"), &format!("{{\"step\":\"{step}\""))
}

/// The tree is damaged: told, made again, and then everything is right.
fn mends_a_tree(damage: impl Fn(&Sandbox), told: &str) {
    let sandbox = pair();
    damage(&sandbox);
    sandbox
        .run(["cache", "verify"])
        .code(1)
        .stdout_has("blobs/");
    change_reader(&sandbox);
    let ended = sandbox.run(RUN).success().stderr_has(told);
    ended.summary([("executed", 2), ("hits", 0), ("failed", 0)]);
    sandbox.run(["cache", "verify"]).success();
    assert_eq!(fs::read_to_string(made(&sandbox)).unwrap(), "made\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
}

#[test]
fn a_flipped_byte_in_a_tree() {
    mends_a_tree(
        |sandbox| flip_byte(&made(sandbox)),
        "warning the output of command:maker is lost ([DIR]/cache/v2/blobs/",
    );
}

/// The first reader finds the damage; the others are ready by then, and must wait for the maker as well.
#[test]
fn every_reader_of_a_damaged_tree_waits_until_it_is_made_again() {
    let mut spec = String::from("version: 1\ncommands:\n  maker: {write: {made.txt: made}}\n");
    for n in 0..6 {
        let argv = format!("[sh, -c, 'find in | sort > list; echo {n} >> list']");
        spec.push_str(&format!(
            "  r{n}: {{argv: {argv}, inputs: {{in/dir: {{step: 'command:maker'}}}}, outputs: [list]}}\n"
        ));
    }
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).success();
    flip_byte(&sandbox.blob("made"));
    let again: Vec<_> = (0..6).map(|n| format!("--rerun=command:r{n}")).collect();
    let args = RUN
        .into_iter()
        .chain(["--jobs", "1"])
        .chain(again.iter().map(String::as_str));
    sandbox
        .run(args)
        .success()
        .summary([("executed", 7), ("failed", 0)]);
    for n in 0..6 {
        let listed = format!("in\nin/dir\nin/dir/made.txt\n{n}\n");
        assert_eq!(sandbox.output(&format!("command:r{n}"), "list"), listed);
    }
}

#[test]
fn a_file_that_is_gone_from_a_tree() {
    mends_a_tree(
        |sandbox| fs::remove_file(made(sandbox)).unwrap(),
        "ok    command:maker",
    );
}

#[test]
fn a_file_that_is_cut_short() {
    let cut = |sandbox: &Sandbox| {
        let path = made(sandbox);
        fs::remove_file(&path).unwrap();
        fs::write(path, "ma").unwrap();
    };
    mends_a_tree(cut, "ok    command:maker");
}

#[test]
fn a_stray_file_among_the_blobs_is_reported_and_harms_nothing() {
    let sandbox = pair();
    fs::write(made(&sandbox).with_file_name("stray"), "x").unwrap();
    sandbox
        .run(["cache", "verify"])
        .code(1)
        .stdout_has("no blob has such a name");
    sandbox.run(RUN).success().summary([("executed", 0)]);
    sandbox.run(["cache", "verify", "--heal"]).success();
    sandbox.run(["cache", "verify"]).success();
}

#[test]
fn output_that_is_gone() {
    let sandbox = pair();
    fs::remove_file(made(&sandbox)).unwrap();
    sandbox
        .run(["plan", "spec.yaml"])
        .success()
        .stdout_has("run  command:maker")
        .stdout_has("its output was lost");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
}

#[test]
fn a_damaged_entry_of_the_log_is_a_miss_with_a_warning() {
    let header = 60; // bytes before the record
    for (what, at) in [
        ("the beginning", 119),
        ("the key", header),
        ("the last byte", 1),
    ] {
        let sandbox = pair();
        flip_at(
            &sandbox.store("log"),
            record_of(&sandbox, "command:maker") - at,
        );
        sandbox
            .run(["cache", "verify"])
            .code(1)
            .stdout_has("the entry at byte");
        // A run in which nothing changed reads no records.
        change_reader(&sandbox);
        let ended = sandbox
            .run(RUN)
            .success()
            .stderr_has("is damaged in 1 place: what was recorded there runs again");
        ended.summary([("executed", 2), ("hits", 0)]);
        sandbox.run(["cache", "verify", "--heal"]).success();
        sandbox.run(["cache", "verify"]).success();
        sandbox
            .run(RUN)
            .success()
            .stderr_lacks("damaged")
            .summary([("executed", 0)]);
        assert!(!what.is_empty());
    }
}

#[test]
fn a_damaged_record_is_reported_with_a_remedy() {
    let sandbox = pair();
    flip_at(
        &sandbox.store("log"),
        record_of(&sandbox, "command:maker") + 9,
    );
    let ended = sandbox.run(["output", "command:maker", "--latest"]).code(2);
    ended
        .stderr_has("the entry at byte")
        .stderr_has("hint: `orch cache verify --heal`");
    sandbox.run(["cache", "verify", "--heal"]).success();
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    assert_eq!(sandbox.output("command:maker", "made.txt"), "made\n");
}

#[test]
fn a_damaged_record_changes_nothing_for_other_steps() {
    let spec =
        "version: 1\ncommands:\n  a: {write: {x: a}}\n  b: {write: {x: b}}\n  c: {write: {x: c}}\n";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).success();
    flip_at(&sandbox.store("log"), record_of(&sandbox, "command:a") + 9);
    fs::remove_dir_all(sandbox.store("memos")).unwrap();
    let steps = sandbox
        .run(["plan", "spec.yaml", "--json"])
        .success()
        .json();
    let verdicts: std::collections::BTreeMap<_, _> = steps["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["step"].as_str().unwrap(), step["verdict"].clone()))
        .collect();
    assert_eq!(verdicts["command:b"], "hit", "{verdicts:?}");
    assert_eq!(verdicts["command:c"], "hit", "{verdicts:?}");
    assert_eq!(sandbox.output("command:b", "x"), "b");
}

/// Several damaged inputs of one step are the disk's doing, and no accusation of the step.
#[test]
fn a_step_that_lost_many_inputs_passes() {
    let mut spec = String::from("version: 1\ncommands:\n");
    let mut inputs = Vec::new();
    for n in 0..6 {
        spec.push_str(&format!("  m{n}: {{write: {{x: made {n}}}}}\n"));
        inputs.push(format!("in{n}: {{step: 'command:m{n}'}}"));
    }
    spec.push_str(&format!(
        "  reads: {{argv: [sh, -c, 'cat in*/x > all'], inputs: {{{}}}, outputs: [all]}}\n",
        inputs.join(", ")
    ));
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).success();
    for n in 0..5 {
        flip_byte(&sandbox.blob(&format!("made {n}")));
    }
    let ended = sandbox
        .run([&RUN[..], &["--rerun", "command:reads"]].concat())
        .success();
    ended.stderr_lacks("writes to the store");
}

/// It is read when the run ends, so whatever else there was to do is done by then.
#[test]
fn a_damaged_record_that_a_page_shows_is_made_again() {
    let test = "generate:bert:mps-fp32";
    let command =
        "commands:\n  c: {argv: [cp, in, out], inputs: {in: {file: in}}, outputs: [out]}\n";
    for has_more_to_do in [false, true] {
        let sandbox = Sandbox::new()
            .file("spec.yaml", format!("{WITHOUT_DEVICE}{command}"))
            .file("in", "1\n");
        sandbox.run(RUN).code(3);
        flip_at(&sandbox.store("log"), record_of(&sandbox, test) + 9);
        fs::remove_dir_all(sandbox.store("memos")).unwrap();
        if has_more_to_do {
            sandbox.write("in", "2\n");
        }
        let ended = sandbox
            .run(RUN)
            .code(3)
            .stderr_has("; the step runs again")
            .stderr_has(&format!("ok    {test}"));
        ended.summary([("executed", 1 + u64::from(has_more_to_do))]);
        sandbox
            .run(RUN)
            .code(3)
            .stderr_lacks("damaged")
            .summary([("executed", 0)]);
    }
}

#[test]
fn a_damaged_manifest_is_written_anew_by_a_rerun() {
    let sandbox = pair();
    flip_at(
        &sandbox.store("log"),
        find(&sandbox.store("log"), "\"path\":\"made.txt\""),
    );
    sandbox
        .run(["cache", "verify"])
        .code(1)
        .stdout_has("the entry at byte");
    change_reader(&sandbox);
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 2), ("hits", 0)]);
    sandbox.write("spec.yaml", PAIR.replace("echo 1", "echo 3"));
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
}

#[test]
fn a_log_that_is_cut_short_loses_what_was_behind_and_no_more() {
    let sandbox = pair();
    let log = sandbox.store("log");
    let kept = record_of(&sandbox, "command:reader") as u64 - 1;
    fs::File::options()
        .write(true)
        .open(&log)
        .unwrap()
        .set_len(kept)
        .unwrap();
    sandbox.run(["cache", "verify"]).success();
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    sandbox.run(["cache", "verify"]).success();
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
}

#[test]
fn healing_takes_damage_out() {
    let sandbox = pair();
    flip_byte(&made(&sandbox));
    flip_at(
        &sandbox.store("log"),
        record_of(&sandbox, "command:reader") + 9,
    );
    let found = sandbox.run(["cache", "verify", "--json"]).code(1).json();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    sandbox
        .run(["cache", "verify", "--heal"])
        .success()
        .stderr_has("removed; the steps");
    sandbox
        .run(["cache", "verify"])
        .success()
        .stdout_has("everything is as it was published");
    sandbox
        .run(RUN)
        .success()
        .stderr_lacks("warning")
        .summary([("executed", 2), ("hits", 0)]);
    sandbox.run(["cache", "verify"]).success();
}

#[test]
fn a_rerun_over_a_damaged_tree_leaves_a_whole_one() {
    let sandbox = pair();
    flip_byte(&made(&sandbox));
    sandbox
        .run(["run", "spec.yaml", "--rerun", "command:maker"])
        .success();
    change_reader(&sandbox);
    sandbox.run(RUN).success();
    sandbox.run(["cache", "verify"]).success();
    assert_eq!(fs::read_to_string(made(&sandbox)).unwrap(), "made\n");
}

#[test]
fn a_damaged_memory_of_file_digests_only_costs_hashing() {
    let sandbox = Sandbox::new().file("in.txt", "x").file(
        "spec.yaml",
        "version: 1\ncommands:\n  c: {argv: [cp, in, out], inputs: {in: {file: in.txt}}, outputs: [out]}\n",
    );
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::options()
        .write(true)
        .open(sandbox.path("in.txt"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    sandbox.run(RUN).success().summary([("executed", 1)]);
    let memory = sandbox.store("files");
    let whole = fs::read(&memory).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"[]", b"\xff"] {
        fs::write(&memory, damaged).unwrap();
        sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("hits", 1)]);
    }
}

#[test]
fn a_damaged_page_is_put_aside_and_written_again() {
    let sandbox = pair();
    let page = sandbox.path("orch-out/report/index.html");
    flip_byte(&page);
    let damaged = fs::read(&page).unwrap();
    sandbox
        .run(RUN)
        .success()
        .stderr_has("index.html` was edited: it is `");
    assert_eq!(
        fs::read(sandbox.path("orch-out/report/index.html.edited")).unwrap(),
        damaged
    );
    sandbox.run(RUN).success().stderr_lacks("edited");
    assert_ne!(fs::read(&page).unwrap(), damaged);
}

#[test]
#[cfg(target_os = "linux")]
fn a_damaged_generated_test_is_not_handed_out() {
    let sandbox = Sandbox::new().file("spec.yaml", WITHOUT_DEVICE);
    sandbox.run(RUN).code(3);
    let name = "orch-out/tests/test_bert_mps-fp32.py";
    let whole = sandbox.read(name);
    flip_byte(&sandbox.blob(&sandbox.output("generate:bert:mps-fp32", "test_bert_mps-fp32.py")));
    sandbox
        .run(RUN)
        .code(3)
        .stderr_has("is damaged:")
        .stderr_has("ok    generate:bert:mps-fp32");
    assert_eq!(sandbox.read(name), whole);
    sandbox.run(["cache", "verify"]).success();
    sandbox
        .run(RUN)
        .code(3)
        .stderr_lacks("damaged")
        .summary([("executed", 0)]);
}

#[test]
fn a_step_cannot_write_to_an_input_that_others_share() {
    let spec = "version: 1
commands:
  large: {argv: [sh, -c, 'head -c 2000000 /dev/zero > big'], outputs: [big]}
  writer: {argv: [sh, -c, 'chmod u+w in/big && echo x >> in/big && echo x > out'], inputs: {in: {step: 'command:large', lend: true}}, outputs: [out]}
  reader: {argv: [sh, -c, 'sleep 0.5; wc -c < in/big > size; cat w > was'], inputs: {in: {step: 'command:large', lend: true}, w: {file: w}}, outputs: [size, was]}
";
    for (switch, writer_passes) in [
        ("on", !orch::confine::Enforced::of_kernel().is_some()),
        ("off", true),
    ] {
        let sandbox = Sandbox::new()
            .file("spec.yaml", spec)
            .file("w", "1")
            .env("ORCH_SANDBOX", switch);
        // What is written to each time is made again each time.
        let ended = sandbox.run_through(
            ["timeout", "--signal=KILL", "60"],
            &["run", "spec.yaml", "--jobs", "2"],
        );
        match writer_passes {
            true => ended.success(),
            false => ended
                .code(1)
                .stderr_has("FAIL  command:writer")
                .stderr_has("Permission denied"),
        };
        assert_eq!(
            sandbox.output("command:reader", "size").trim(),
            "2000000",
            "{switch}"
        );
        sandbox.run(["cache", "verify"]).success();
    }
}

/// Without Landlock a program that knows the store's folder can write there.
#[test]
fn a_step_that_damages_its_input_each_time_fails_and_does_not_run_for_ever() {
    let sandbox = Sandbox::new().env("ORCH_SANDBOX", "off");
    let blobs = sandbox.path("cache/v2/blobs");
    let spoil = format!(
        "for each in {}/*/*; do chmod u+w $each; echo x >> $each; done; echo x > out",
        blobs.display()
    );
    let spec = format!(
        "version: 1
commands:
  input: {{argv: [sh, -c, 'echo whole > big'], outputs: [big]}}
  spoiler: {{argv: [sh, -c, '{spoil}'], inputs: {{in: {{step: 'command:input'}}}}, outputs: [out]}}
"
    );
    let sandbox = sandbox.file("spec.yaml", spec);
    let ended = sandbox.run_through(["timeout", "--signal=KILL", "60"], &["run", "spec.yaml"]);
    ended
        .code(1)
        .stderr_has("FAIL  command:spoiler")
        .stderr_has("the output of command:input is damaged whenever this step reads it");
}

/// Somebody with the store's own rights writes to a blob while a step reads it, and puts back its time and its mode.
#[test]
fn an_input_that_changes_while_a_step_reads_it_is_noticed_and_made_again() {
    let spec = "version: 1
commands:
  large: {argv: [sh, -c, 'yes whole | head -c 2000004 > big'], outputs: [big]}
  reader: {argv: [sh, -c, 'touch seen/began; sleep 1; sort -u in/big > read'], inputs: {in: {step: 'command:large'}}, outputs: [read], writable: [SEEN]}
";
    let sandbox = Sandbox::new();
    let began = sandbox.path("seen/began");
    let spec = spec
        .replace("touch seen/began", &format!("touch {}", began.display()))
        .replace("SEEN", "seen");
    let sandbox = sandbox.file("spec.yaml", spec);
    let child = sandbox.spawn(["run", "spec.yaml"]);
    eventually("it began", || began.exists());
    let blob = sandbox.blob(&"whole\n".repeat(333_334));
    let before = std::fs::metadata(&blob).unwrap();
    std::fs::set_permissions(&blob, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut file = std::fs::File::options().write(true).open(&blob).unwrap();
    std::io::Write::write_all(&mut file, b"other\n").unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    std::fs::set_permissions(&blob, before.permissions()).unwrap();
    let ended = sandbox.wait(child).success();
    ended
        .stderr_has("the output of command:large is lost")
        .stderr_has("it runs again");
    assert_eq!(sandbox.output("command:reader", "read"), "whole\n");
    sandbox.run(["cache", "verify"]).success();
}
