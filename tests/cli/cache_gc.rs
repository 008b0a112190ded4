//! `orch cache gc`: what goes, what stays, beside running orchs, and killed.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Sandbox, eventually, signal};

const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

/// maker → reader, and a step of its own; `tail` changes what the reader does.
fn spec(tail: &str) -> String {
    format!(
        "version: 1
commands:
  maker: {{argv: [sh, -c, 'head -c 5000 /dev/zero | tr \"\\0\" m > made; echo said'], outputs: [made]}}
  reader: {{argv: [sh, -c, 'cat in/made > read; echo {tail} >> read'], inputs: {{in: {{step: 'command:maker'}}}}, outputs: [read]}}
  other: {{argv: [sh, -c, 'head -c 3000 /dev/zero | tr \"\\0\" o > out'], outputs: [out]}}
"
    )
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", spec("1"));
    sandbox.run(RUN).success().summary([("executed", 3)]);
    sandbox
}

fn gc(sandbox: &Sandbox, args: &[&str]) -> Value {
    sandbox
        .run([&["cache", "gc", "--json"], args].concat())
        .success()
        .json()
}

fn whole(sandbox: &Sandbox) {
    sandbox
        .run(["cache", "verify"])
        .success()
        .stdout_has("everything is as it was published");
}

/// So that dates, which tell seconds, differ.
fn a_second() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[test]
fn something_must_say_what_may_go() {
    let sandbox = sandbox();
    sandbox
        .run(["cache", "gc"])
        .code(2)
        .stderr_has("hint: give --max-size, --max-age or --keep-last");
    sandbox
        .run(["cache", "gc", "--max-size", "10Q"])
        .code(2)
        .stderr_has("`10Q` is no size");
    sandbox
        .run(["cache", "gc", "--max-age", "7"])
        .code(2)
        .stderr_has("`7` is not an age");
    sandbox
        .run(["cache", "gc", "--keep-last", "0"])
        .code(2)
        .stderr_has("give a whole number from 1 on");
    sandbox
        .run(["cache", "gc", "--max-size", "1G", "--keep", "none.yaml"])
        .code(2)
        .stderr_has("none.yaml");
    sandbox
        .run(["cache", "gc", "--max-size", "1G"])
        .success()
        .stdout_has("removed nothing\nkept 3 records: ");
    sandbox.run(RUN).success().summary([("executed", 0)]);
}

#[test]
fn older_generations_of_a_step_go() {
    let sandbox = sandbox();
    for tail in ["2", "3"] {
        sandbox.write("spec.yaml", spec(tail));
        sandbox.run(RUN).success().summary([("executed", 1)]);
    }
    assert_eq!(sandbox.stats()["held"], 5);
    let done = gc(&sandbox, &["--keep-last", "2"]);
    assert_eq!(
        (
            &done["records"]["generations"],
            &done["trees"],
            &done["blobs"]["count"]
        ),
        (&1.into(), &1.into(), &1.into())
    );
    whole(&sandbox);
    sandbox.run(RUN).success().summary([("executed", 0)]);
    sandbox.write("spec.yaml", spec("2"));
    sandbox.run(RUN).success().summary([("executed", 0)]);
    sandbox.write("spec.yaml", spec("1"));
    sandbox.run(RUN).success().summary([("executed", 1)]);
}

#[test]
fn the_longest_not_used_goes_first_and_what_was_used_stays() {
    let sandbox = sandbox();
    a_second();
    sandbox.write("spec.yaml", spec("2"));
    sandbox.run(RUN).success().summary([("executed", 1)]);
    // The maker is older than the other step, and a newer reader was made of it: it stays.
    let done = gc(&sandbox, &["--max-size", "10010"]);
    assert!(done["records"]["large"].as_u64().unwrap() >= 2, "{done}");
    assert!(done["kept"]["bytes"].as_u64().unwrap() <= 10_010, "{done}");
    whole(&sandbox);
    let plan = sandbox
        .run(["plan", "spec.yaml"])
        .success()
        .stdout_has("run  command:other");
    plan.stdout_lacks("command:maker")
        .stdout_lacks("command:reader");
    sandbox
        .run(RUN)
        .success()
        .stderr_lacks("command:maker")
        .stderr_has("ok    command:other");
    whole(&sandbox);
}

#[test]
fn what_is_older_goes() {
    let sandbox = sandbox();
    a_second();
    a_second();
    sandbox.write("spec.yaml", spec("2"));
    sandbox.run(RUN).success();
    assert_eq!(gc(&sandbox, &["--max-age", "1h"])["records"]["old"], 0);
    let done = gc(&sandbox, &["--max-age", "1s"]);
    // The first reader and the other step; perhaps all, if this machine is slow.
    assert!(done["records"]["old"].as_u64().unwrap() >= 2, "{done}");
    whole(&sandbox);
    gc(&sandbox, &["--max-age", "0s"]);
    a_second();
    let done = gc(&sandbox, &["--max-age", "0s"]);
    assert_eq!(
        (&done["kept_records"], &done["kept"]["count"]),
        (&0.into(), &0.into())
    );
    assert!(sandbox.stored_files("blobs").is_empty() && sandbox.stored_files("logs").is_empty());
    sandbox.run(RUN).success().summary([("executed", 3)]);
}

#[test]
fn the_specs_that_are_named_keep_what_they_need() {
    let sandbox = sandbox();
    sandbox.write("spec.yaml", spec("2"));
    sandbox.run(RUN).success();
    let ended = sandbox
        .run(["cache", "gc", "--max-size", "0", "--keep", "spec.yaml"])
        .success();
    ended
        .stderr_has("what --keep names or a running orch made is not removed")
        .stdout_has("1 result used longest ago");
    whole(&sandbox);
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
}

/// With its mark; gives its size.
fn earlier_layout(sandbox: &Sandbox) -> usize {
    let mark = fs::read(sandbox.store(".orch")).unwrap();
    sandbox.write("cache/v1/.orch", &mark);
    sandbox.write("cache/v1/records/x.json", "0123456789");
    mark.len() + 10
}

#[test]
fn a_dry_run_changes_nothing() {
    let sandbox = sandbox();
    let size = earlier_layout(&sandbox);
    sandbox.write("cache/v2/tmp/orch-dead/x", "0123");
    sandbox.write("cache/v2/tmp/orch-dead.lock", "");
    sandbox.write("cache/v2/memos/x", "");
    let before = listing(&sandbox);
    let done = gc(&sandbox, &["--dry-run", "--max-size", "0"]);
    assert_eq!(
        (&done["dry_run"], &done["records"]["large"]),
        (&true.into(), &3.into())
    );
    assert_eq!(
        (&done["layouts"][0]["bytes"], &done["scratch"]["count"]),
        (&size.into(), &1.into())
    );
    assert_eq!(done["blobs"]["count"], 3, "{done}");
    sandbox
        .run(["cache", "gc", "--dry-run"])
        .success()
        .stdout_has("would remove\n")
        .stdout_has(&format!("the store of an earlier version: {size} B"));
    assert_eq!(listing(&sandbox), before);
    sandbox.run(RUN).success().summary([("executed", 0)]);
}

fn listing(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let all = walkdir::WalkDir::new(sandbox.path("cache"))
        .sort_by_file_name()
        .into_iter()
        .flatten();
    all.map(|entry| {
        (
            entry.path().display().to_string(),
            entry.metadata().unwrap().len(),
        )
    })
    .collect()
}

#[test]
fn what_nothing_names_goes_when_it_is_old_enough() {
    let sandbox = sandbox();
    let name = orch::base::Digest::of(b"x").to_string();
    let stray = sandbox.store("blobs").join(&name[..2]).join(&name);
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    fs::write(&stray, "x").unwrap();
    let size = earlier_layout(&sandbox);
    sandbox.write("cache/v3/x", "of a later orch");
    sandbox.write("cache/v2/tmp/orch-dead/x", "0123");
    sandbox.write("cache/v2/tmp/orch-dead.lock", "");
    sandbox.write("cache/v2/logs/command.gone.log", "said");
    sandbox.write("cache/v2/memos/x", "");
    let ended = sandbox.run(["cache", "gc", "--max-size", "1G"]).success();
    let ended = ended.stdout_has(&format!("v1, the store of an earlier version: {size} B"));
    let ended = ended.stdout_has("1 working folder, 4 B of killed processes");
    let ended = ended.stdout_has("1 log, 4 B of steps without records");
    ended.stderr_has("1 file, 1 B that nothing refers to yet are kept, because they are new");
    assert!(
        stray.exists() && sandbox.path("cache/v3/x").exists() && sandbox.store("memos/x").exists()
    );
    assert!(!sandbox.path("cache/v1").exists() && !sandbox.store("logs/command.gone.log").exists());
    assert!(sandbox.store("logs/command.maker.log").exists());
    assert!(sandbox.stored_files("tmp").is_empty());
    // Whatever speaks of records goes with any of them.
    gc(&sandbox, &["--max-size", "8k"]);
    assert!(!sandbox.store("memos/x").exists());
    whole(&sandbox);
}

#[test]
fn of_failures_the_newest_stays() {
    let sandbox = Sandbox::new().file(
        "spec.yaml",
        "version: 1\ncommands:\n  a: {argv: ['false'], outputs: [x]}\n",
    );
    for _ in 0..3 {
        sandbox.run(RUN).code(1);
    }
    let done = gc(&sandbox, &["--max-size", "1G"]);
    assert_eq!(
        (&done["records"]["history"], &done["kept_records"]),
        (&2.into(), &1.into())
    );
    sandbox
        .run(["plan", "spec.yaml"])
        .success()
        .stdout_has("last time: FAIL");
}

/// A run that waits, in a step called `slow`, until the file `go` is there; then `late` reads what `maker` made.
fn waiting(sandbox: &Sandbox) -> std::process::Child {
    let began = sandbox.path("seen/began");
    let go = sandbox.path("go");
    let began_at = began.display();
    let go = go.display();
    let slow = format!(
        "{}  first: {{argv: [sh, -c, 'echo first > out'], outputs: [out]}}
  slow: {{argv: [sh, -c, 'touch {began_at}; while ! test -e {go}; do sleep 0.02; done; cat in/out > out'], inputs: {{in: {{step: 'command:first'}}}}, outputs: [out], writable: [seen]}}
  late: {{argv: [sh, -c, 'cat a/made b/out c/out > out'], inputs: {{a: {{step: 'command:maker'}}, b: {{step: 'command:slow'}}, c: {{step: 'command:first'}}}}, outputs: [out]}}
",
        spec("1")
    );
    sandbox.write("spec.yaml", slow);
    let child = sandbox.spawn(RUN);
    eventually("the slow step began", || began.exists());
    child
}

#[test]
fn beside_a_running_orch_its_results_and_what_it_is_going_to_read_stay() {
    let sandbox = sandbox();
    a_second();
    let child = waiting(&sandbox);
    for _ in 0..3 {
        let ended = sandbox
            .run([
                "cache",
                "gc",
                "--max-size",
                "0",
                "--keep-last",
                "1",
                "--max-age",
                "0s",
            ])
            .success();
        ended.stderr_has("another orch has been running since");
        whole(&sandbox);
    }
    let plan = sandbox.run(["plan", "spec.yaml", "--all"]).success();
    plan.stdout_has("ok   command:first")
        .stdout_has("ok   command:maker")
        .stdout_has("run  command:other");
    sandbox.write("go", "");
    let ended = sandbox
        .wait(child)
        .success()
        .stderr_has("ok    command:late")
        .stderr_lacks("ok    command:maker");
    ended.summary([("failed", 0)]);
    whole(&sandbox);
    let again = sandbox
        .run(RUN)
        .success()
        .stderr_lacks("command:late")
        .stderr_lacks("command:slow");
    again.stderr_has("ok    command:other");
    sandbox.run(RUN).success().summary([("executed", 0)]);
}

#[test]
fn a_generated_test_that_goes_during_the_run_is_made_again_and_handed_out() {
    let spec = "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  cuda: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32]}
models:
  bert: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}}
";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox.run(RUN).code(3);
    let name = "orch-out/tests/test_bert_cuda-fp32.py";
    let made = sandbox.read(name);
    a_second();
    let began = sandbox.path("seen/began");
    let go = sandbox.path("go");
    let slow = format!(
        "touch {}; while ! test -e {}; do sleep 0.02; done; touch out",
        began.display(),
        go.display()
    );
    sandbox.write(
        "spec.yaml",
        format!("{spec}commands:\n  slow: {{argv: [sh, -c, '{slow}'], outputs: [out], writable: [seen]}}\n"),
    );
    let child = sandbox.spawn(RUN);
    eventually("the slow step began", || began.exists());
    gc(&sandbox, &["--max-size", "0"]);
    fs::remove_file(sandbox.path(name)).unwrap();
    sandbox.write("go", "");
    let ended = sandbox
        .wait(child)
        .code(3)
        .stderr_has("what was lost is made again");
    ended.stderr_has("ok    generate:bert:cuda-fp32");
    assert_eq!(sandbox.read(name), made);
    whole(&sandbox);
    sandbox.run(RUN).code(3).summary([("executed", 0)]);
}

#[test]
fn beside_many_others_nothing_is_lost() {
    let spec: String = (0..40).fold("version: 1\ncommands:\n".into(), |spec, n| {
        let from = if n % 4 == 0 { String::new() } else { format!(", inputs: {{in: {{step: 'command:c{}'}}}}", n - 1) };
        format!("{spec}  c{n}: {{argv: [sh, -c, 'cat in/out > out; head -c {n}00 /dev/zero >> out; true']{from}, outputs: [out]}}\n")
    });
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    for round in 0..3 {
        let mut children = vec![sandbox.spawn(RUN), sandbox.spawn(RUN)];
        for limit in ["0", "20k"] {
            children.push(sandbox.spawn(["cache", "gc", "--max-size", limit]));
        }
        children.push(sandbox.spawn(["cache", "verify"]));
        for child in children {
            sandbox.wait(child).success();
        }
        whole(&sandbox);
        sandbox.run(RUN).success();
        sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("hits", 40)]);
        gc(&sandbox, &["--max-size", &format!("{round}k")]);
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_right_store() {
    let spec = |tail: &str| {
        (0..60).fold("version: 1\ncommands:\n".into(), |spec, n| {
            format!("{spec}  c{n}: {{argv: [sh, -c, 'echo {tail} {n} > out'], outputs: [out]}}\n")
        })
    };
    let sandbox = Sandbox::new().file("spec.yaml", spec("0"));
    for round in 1..=12u64 {
        sandbox.write("spec.yaml", spec(&round.to_string()));
        sandbox.run(RUN).success();
        let mut child = sandbox.spawn(["cache", "gc", "--keep-last", "1"]);
        std::thread::sleep(Duration::from_millis(round * 3));
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        whole(&sandbox);
        sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("hits", 60)]);
    }
    let done = gc(&sandbox, &["--keep-last", "1"]);
    assert_eq!(sandbox.stats()["held"], 60);
    // 60 outputs; and what a collection that was killed had no time to remove, which
    // nothing names now, so that it could as well be on its way in.
    let left = done["too_new"]["count"].as_u64().unwrap();
    assert_eq!(sandbox.stored_files("blobs").len() as u64, 60 + left);
    assert!(!sandbox.store("log.new").exists());
}

#[test]
fn environments_of_other_versions_go_on_request() {
    let sandbox = sandbox();
    let old = "cache/envs/torch-0123456789ab";
    sandbox.write(&format!("{old}/lib/x"), "0123456789");
    sandbox.write(&format!("{old}.txt"), "requirements");
    sandbox.write("cache/envs/mine-0123456789ab/x", "not orch's");
    sandbox.write(&format!("{old}.lock"), "");
    sandbox.write("cache/envs/orch_py-0123456789ab/orch_py/x", "0");
    let stats = sandbox
        .run(["cache", "stats", "--envs", "--json"])
        .success()
        .json();
    assert_eq!(
        stats["environments"].as_array().unwrap().len(),
        2,
        "{stats}"
    );
    gc(&sandbox, &["--max-size", "1G"]);
    gc(&sandbox, &["--envs", "--dry-run"]);
    assert!(sandbox.path(old).exists());
    let lock = fs::File::create(sandbox.path(&format!("{old}.lock"))).unwrap();
    lock.lock().unwrap();
    sandbox
        .run(["cache", "gc", "--envs"])
        .success()
        .stderr_has("another orch is installing it");
    assert!(
        sandbox.path(old).exists() && !sandbox.path("cache/envs/orch_py-0123456789ab").exists()
    );
    drop(lock);
    let done = gc(&sandbox, &["--envs"]);
    assert_eq!(done["environments"]["gone"][0]["bytes"], 10, "{done}");
    assert!(!sandbox.path(old).exists() && !sandbox.path(&format!("{old}.txt")).exists());
    assert!(sandbox.path("cache/envs/mine-0123456789ab/x").exists());
    sandbox.run(RUN).success().summary([("executed", 0)]);
}

#[test]
fn environments_go_by_their_last_use() {
    let sandbox = sandbox();
    let month = Duration::from_secs(30 * 24 * 3600);
    let made = |name: &str, unused_for: Duration| {
        let home = format!("cache/envs/{name}");
        sandbox.write(&format!("{home}/orch-env.json"), "{}");
        sandbox.write(&format!("{home}.used"), "");
        let mark = fs::File::options()
            .append(true)
            .open(sandbox.path(&format!("{home}.used")))
            .unwrap();
        let then = std::time::SystemTime::now() - unused_for;
        mark.set_modified(then).unwrap();
        (home, mark)
    };
    let (old, mark) = made("ort-0123456789ab", 2 * month);
    let (new, _) = made("ort-abcdef012345", month / 2);
    let (held, user) = made("openvino-0123456789ab", 2 * month);
    user.lock_shared().unwrap();
    let options = ["--envs", "--older-than", "30d"];
    let planned = gc(&sandbox, &[&options[..], &["--dry-run"]].concat());
    assert!(sandbox.path(&old).exists());
    let done = gc(&sandbox, &options);
    for document in [planned, done] {
        let document = &document["environments"];
        let gone = document["gone"].as_array().unwrap();
        assert_eq!(gone.len(), 1, "{document}");
        assert!(
            gone[0]["path"].as_str().unwrap().ends_with(&old),
            "{document}"
        );
        assert!(gone[0]["last_used"].is_string(), "{document}");
        let why = document["stay"][0]["why"].as_str().unwrap();
        assert!(why.contains("another orch uses it"), "{why}");
    }
    assert!(!sandbox.path(&old).exists() && !sandbox.path(&format!("{old}.used")).exists());
    assert!(sandbox.path(&new).exists() && sandbox.path(&held).exists());
    drop((mark, user));
    let done = gc(&sandbox, &options);
    assert!(!sandbox.path(&held).exists(), "{done}");
    sandbox
        .run(["cache", "gc", "--older-than", "30d"])
        .code(2)
        .stderr_has("--envs");
}
