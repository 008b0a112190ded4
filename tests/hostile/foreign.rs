//! Files of the user's where orch is told to put its own: none is removed, none is overwritten.

use std::fs;

use crate::support::{Sandbox, WITHOUT_DEVICE};

const SPEC: &str = "version: 1
commands:
  one: {argv: [sh, -c, 'echo 1 > out'], outputs: [out]}
";
const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

/// A project whose user names the wrong folder, which is easily done.
fn project() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    sandbox.write("v0/docs.txt", "mine");
    sandbox.write("v1/api.txt", "mine");
    sandbox
}

#[test]
fn a_folder_with_files_of_others_is_no_store() {
    let sandbox = project();
    for args in [
        &["cache", "gc", "--max-size", "1G"][..],
        &["run", "spec.yaml"],
        &["cache", "stats"],
    ] {
        let ended = sandbox.run([args, &["--cache-dir", "."]].concat()).code(2);
        ended
            .stderr_has("is not empty and no store")
            .stderr_has("hint: ");
    }
    assert_eq!(
        (sandbox.read("v0/docs.txt"), sandbox.read("v1/api.txt")),
        ("mine".into(), "mine".into())
    );
    assert!(!sandbox.path("v2").exists(), "nothing was begun there");
}

#[test]
fn a_version_folder_of_somebody_else_is_neither_used_nor_removed() {
    let sandbox = project();
    sandbox.run(RUN).success();
    sandbox.write("cache/v1/api.txt", "mine");
    sandbox
        .run(["cache", "gc", "--max-size", "1G"])
        .success()
        .stderr_has("v1 stays: it is not marked as orch");
    assert_eq!(sandbox.read("cache/v1/api.txt"), "mine");
    let gone = sandbox.path("cache/v0");
    fs::create_dir(&gone).unwrap();
    fs::copy(sandbox.store(".orch"), gone.join(".orch")).unwrap();
    sandbox
        .run(["cache", "gc", "--max-size", "1G"])
        .success()
        .stdout_has("v0, the store of an earlier version");
    assert!(!gone.exists());

    let other = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("cache/v2/tmp/work/x", "mine");
    other
        .run(RUN)
        .code(2)
        .stderr_has("is not empty and no store");
    assert_eq!(other.read("cache/v2/tmp/work/x"), "mine");
}

#[test]
fn a_store_of_an_orch_that_left_no_mark_is_used_and_marked() {
    let sandbox = project();
    sandbox.run(RUN).success();
    for mark in ["cache/.orch", "cache/v2/.orch"] {
        fs::remove_file(sandbox.path(mark)).unwrap();
    }
    // Such orchs made all folders of blobs at once, and are known by the last of them.
    fs::create_dir_all(sandbox.store("blobs/ff")).unwrap();
    sandbox.run(RUN).success().summary([("executed", 0)]);
    sandbox.run(["cache", "stats"]).success();
    assert!(sandbox.store(".orch").is_file() && sandbox.path("cache/.orch").is_file());
}

#[test]
fn what_keeps_an_empty_folder_in_git_is_no_file_of_others() {
    let sandbox = project().file("cache/.gitignore", "*\n");
    sandbox.run(RUN).success();
    assert_eq!(sandbox.read("cache/.gitignore"), "*\n");
}

#[test]
fn working_folders_that_orch_did_not_name_stay() {
    let sandbox = project();
    sandbox.run(RUN).success();
    sandbox.write("cache/v2/tmp/mine/x", "mine");
    sandbox.run(["cache", "gc", "--max-size", "0"]).success();
    assert_eq!(sandbox.read("cache/v2/tmp/mine/x"), "mine");
}

#[test]
fn an_environment_folder_that_orch_did_not_make_stays() {
    let sandbox = project();
    sandbox.run(RUN).success();
    sandbox.write("cache/envs/torch-0123456789ab/bin/mine", "mine");
    sandbox.write("cache/envs/torch-0123456789ac/orch-env.json", "{}");
    sandbox
        .run(["cache", "gc", "--envs"])
        .success()
        .stdout_has("torch-0123456789ac")
        .stdout_lacks("9ab");
    assert_eq!(
        sandbox.read("cache/envs/torch-0123456789ab/bin/mine"),
        "mine"
    );
    assert!(!sandbox.path("cache/envs/torch-0123456789ac").exists());
}

const TEST: &str = "tests/test_bert_mps-fp32.py";

#[test]
fn pages_and_tests_of_the_users_own_are_not_replaced() {
    let sandbox = Sandbox::new().file("spec.yaml", WITHOUT_DEVICE);
    let own = [
        "report/index.html",
        "report/matrix.json",
        TEST,
        "artefacts/bert/model/weights.bin",
    ];
    for name in own {
        sandbox.write(name, "mine");
    }
    let run = ["run", "spec.yaml", "--out-dir", "."];
    for _ in 0..2 {
        let ended = sandbox.run(run).code(3);
        ended
            .stderr_has("`[DIR]/report/index.html` is not orch's, so it stays")
            .stderr_has(TEST);
    }
    for name in own {
        assert_eq!(sandbox.read(name), "mine", "{name}");
    }
    assert!(
        sandbox.read("report/matrix.md").contains("bert"),
        "what is in nobody's way is handed out"
    );
}

#[test]
fn what_was_edited_is_put_aside_and_not_lost() {
    let sandbox = Sandbox::new().file("spec.yaml", WITHOUT_DEVICE);
    sandbox.run(RUN).code(3).stderr_lacks("edited");
    let test = format!("orch-out/{TEST}");
    let made = sandbox.read(&test);
    for (edit, aside) in [("mine", ".edited"), ("mine too", ".edited-2")] {
        sandbox.write(&test, edit);
        sandbox
            .run(RUN)
            .code(3)
            .stderr_has("test_bert_mps-fp32.py` was edited: it is `")
            .stderr_has(aside);
        assert_eq!(
            (sandbox.read(&test), sandbox.read(&format!("{test}{aside}"))),
            (made.clone(), edit.into())
        );
    }
    sandbox.run(RUN).code(3).stderr_lacks("edited");
    // An orch that listed nothing put there what the store holds, up to the line that handing out fills in.
    fs::remove_file(sandbox.path("orch-out/tests/.orch")).unwrap();
    sandbox
        .run([&RUN[..], &["--fallback"]].concat())
        .code(3)
        .stderr_lacks("edited")
        .stderr_lacks("not orch's");
    assert_ne!(
        sandbox.read(&test),
        made,
        "it names the command line of its run"
    );
    sandbox.run(RUN).code(3).stderr_lacks("edited");
    // What is as orch wrote it is replaced without a word, also when the store has forgotten it.
    sandbox.run(["cache", "gc", "--max-size", "0"]).success();
    sandbox.write(
        "spec.yaml",
        WITHOUT_DEVICE
            .replace("value: 1", "value: 2")
            .replace("ids to logits", "ids to scores"),
    );
    sandbox
        .run(RUN)
        .code(3)
        .stderr_lacks("edited")
        .stderr_lacks("not orch's");
    assert_ne!(sandbox.read("orch-out/report/matrix.json"), "");
}
