//! The ready workflow, run as it is written by a small GitHub (`runner`): what a company meets in its first weeks.

use serde_json::{Value, json};

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::runner::{Cancel, Ended, GitHub, Trouble};
use crate::support::{Sandbox, skipped};

fn workflow() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/github-workflow.yml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A repository of two models and a command, which fails as long as there is a file `switch` beside the repository's.
fn repository() -> Sandbox {
    let sandbox = sandbox(RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    let linear = spec.split("  linear:\n").nth(1).unwrap();
    let switch = sandbox.path("switch").display().to_string();
    let command = format!(
        "commands:\n  check: {{argv: [sh, -c, 'test ! -e {switch} && echo well > out'], outputs: [out]}}\n"
    );
    sandbox.write(
        "specs/all.yaml",
        format!("{spec}  other:\n{linear}{command}"),
    );
    sandbox
}

fn github() -> GitHub {
    GitHub::new(repository(), workflow())
}

/// What the shards executed, by the outputs that decide whether a store is saved.
fn executed(jobs: &[Ended]) -> u64 {
    let of = |ended: &Ended| {
        let (_, said) = ended.step("Run");
        let written = said.lines().find_map(|line| line.strip_prefix("executed="));
        written.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    jobs.iter()
        .filter(|job| job.job.starts_with("models"))
        .map(of)
        .sum()
}

#[track_caller]
fn all_are(jobs: &[Ended], result: &str) {
    assert!(jobs.iter().all(|job| job.result == result), "{jobs:#?}");
}

fn report(jobs: &[Ended]) -> &Ended {
    jobs.iter()
        .find(|job| job.job.starts_with("report"))
        .unwrap()
}

const SOUND: Trouble = Trouble {
    cancel: None,
    starter: None,
};

#[test]
fn a_first_run_a_pull_request_one_of_a_fork_and_a_night() {
    let github = github();
    let first = github.attempt(&github.run(1, "push"), &SOUND);
    all_are(&first, "success");
    assert!(report(&first).summary.contains("4 passed"), "{first:#?}");
    assert!(executed(&first) >= 8, "{first:#?}");
    let keys = github.keys();
    for start in [
        "orch-bin-Linux-X64-",
        "orch-store-ubuntu-24.04-X64-",
        "orch-base-",
    ] {
        assert!(keys.iter().any(|key| key.starts_with(start)), "{keys:?}");
    }
    // A pull request that changes no step: what main made is restored, and nothing is executed.
    let spec = github.sandbox().read("specs/all.yaml");
    github
        .sandbox()
        .write("specs/all.yaml", format!("{spec}# a comment\n"));
    github.commit("comment");
    let pull = github.run(2, "pull_request");
    let jobs = github.attempt(&pull, &SOUND);
    all_are(&jobs, "success");
    assert_eq!(executed(&jobs), 0, "{jobs:#?}");
    assert_eq!(report(&jobs).step("Comment").0, "success");
    assert!(
        report(&jobs).summary.contains("4 outside of this part"),
        "{jobs:#?}"
    );
    // One that breaks a model is red, and says so; a fork's may not write a comment.
    github
        .sandbox()
        .write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    github.commit("broken");
    let mut pull = github.run(3, "pull_request");
    pull.is_of_fork = true;
    let jobs = github.attempt(&pull, &SOUND);
    let red = jobs.iter().filter(|job| job.result == "failure").count();
    assert!((1..=2).contains(&red), "{jobs:#?}");
    assert_eq!(report(&jobs).result, "success", "{jobs:#?}");
    assert_eq!(report(&jobs).step("Comment").0, "skipped");
    assert!(report(&jobs).summary.contains("broken (4)"), "{jobs:#?}");
    // It left no base, and main is as it was.
    github
        .sandbox()
        .write("models/expected/output_0.pb", expected(RIGHT));
    github.sandbox().write("specs/all.yaml", &spec);
    github.commit("back");
    let night = github.attempt(&github.run(4, "schedule"), &SOUND);
    all_are(&night, "success");
    assert_eq!(executed(&night), 0, "nothing is a week old: {night:#?}");
}

#[test]
fn a_second_attempt_turns_green_what_a_sick_machine_made_red() {
    let github = github();
    github.sandbox().write("switch", "");
    let mut run = github.run(1, "push");
    let jobs = github.attempt(&run, &SOUND);
    let red = jobs.iter().filter(|job| job.result == "failure").count();
    assert_eq!(red, 1, "{jobs:#?}");
    std::fs::remove_file(github.sandbox().path("switch")).unwrap();
    run.attempt = 2;
    let jobs = github.attempt(&run, &SOUND);
    all_are(&jobs, "success");
    assert!(executed(&jobs) >= 1, "{jobs:#?}");
}

#[test]
fn a_shard_that_was_cancelled_goes_on_with_what_it_had_made() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let sandbox = repository();
        let spec = sandbox.read("specs/all.yaml");
        let slow = "  slow: {argv: [sh, -c, 'sleep 1000; echo x > out'], inputs: {in: {step: 'command:quick'}}, outputs: [out]}
  quick: {argv: [sh, -c, 'echo quick > out'], outputs: [out]}\n";
        sandbox.write("specs/all.yaml", format!("{spec}{slow}"));
        let github = GitHub::new(sandbox, workflow());
        let run = github.run(1, "push");
        let holder = holder(&github, "command:slow");
        let trouble = Trouble {
            cancel: Some(Cancel {
                shard: holder,
                step: "Run",
                when: "ok    command:quick",
                signal,
            }),
            ..SOUND
        };
        let jobs = github.attempt(&run, &trouble);
        let cancelled: Vec<_> = jobs
            .iter()
            .filter(|job| job.result == "cancelled")
            .collect();
        assert_eq!(cancelled.len(), 1, "{jobs:#?}");
        let keys = github.keys();
        let own = format!("orch-store-ubuntu-24.04-X64-{holder}-");
        assert!(keys.iter().any(|key| key.starts_with(&own)), "{keys:?}");
        assert_eq!(report(&jobs).step("Keep what main came to").0, "success");
        assert!(
            !keys.iter().any(|key| key.starts_with("orch-base")),
            "not whole: {keys:?}"
        );
        // The next attempt goes on with what the first had made.
        let spec = github.sandbox().read("specs/all.yaml");
        github
            .sandbox()
            .write("specs/all.yaml", spec.replace("sleep 1000", "sleep 0"));
        github.commit("quicker");
        let jobs = github.attempt(&github.run(2, "push"), &SOUND);
        all_are(&jobs, "success");
        let shard = jobs
            .iter()
            .find(|job| job.job.contains(&format!("shard{holder}")));
        let (_, said) = shard.unwrap().step("Run");
        assert!(!said.contains("ok    command:quick"), "{said}");
    }
}

/// The shard that has a step.
fn holder(github: &GitHub, step: &str) -> u64 {
    let has = |shard: &u64| {
        let partition = format!("model:{shard}/4");
        let plan = [
            "plan",
            "specs/all.yaml",
            "--json",
            "--partition",
            &partition,
        ];
        let plan = github.sandbox().run(plan).success().json();
        plan["steps"]
            .as_array()
            .unwrap()
            .iter()
            .any(|told| told["step"] == step)
    };
    (1..=4).find(has).unwrap()
}

/// A base whose parts come from two machines judges each case on its own machine, and none on the other.
#[test]
fn a_base_of_two_machines_compares_no_figure_across_them() {
    if !may_mount() {
        return;
    }
    let github = github();
    let holder = holder(&github, "generate:linear");
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let is_model = |line: &&str| line.starts_with("model name");
    let named = cpuinfo.lines().find(is_model).unwrap_or_default();
    let other = cpuinfo.replace(named, "model name\t: another CPU");
    github.sandbox().write("cpuinfo", other);
    let there = format!(
        "mount --bind {} /proc/cpuinfo && hostname pool-b && exec \"$@\"",
        github.sandbox().path("cpuinfo").display()
    );
    let starter = ["unshare", "-m", "-u", "sh", "-c", &there, "sh"].map(str::to_owned);
    let elsewhere = Trouble {
        starter: Some((holder, starter.to_vec())),
        ..SOUND
    };
    let jobs = github.attempt(&github.run(1, "push"), &elsewhere);
    all_are(&jobs, "success");
    // All is measured anew by a pull request, whose jobs are all on the first machine.
    let spec = github.sandbox().read("specs/all.yaml");
    let more = spec.replace("samples: 6", "samples: 7");
    assert_ne!(spec, more);
    github.sandbox().write("specs/all.yaml", more);
    github.commit("more samples");
    let jobs = github.attempt(&github.run(2, "pull_request"), &SOUND);
    all_are(&jobs, "success");
    let shard = jobs
        .iter()
        .find(|job| job.job.contains(&format!("shard{holder}")));
    let (_, said) = shard.unwrap().step("Gate");
    assert!(
        said.contains("times of 0 cases compared") && said.contains("measured on another machine"),
        "{said}"
    );
}

#[test]
fn two_kinds_of_runners_take_no_name_from_each_other() {
    let mut workflow = workflow();
    workflow["jobs"]["models"]["strategy"]["matrix"]["runner"] =
        json!(["ubuntu-24.04", "ubuntu-22.04"]);
    let github = GitHub::new(repository(), workflow);
    let jobs = github.attempt(&github.run(1, "push"), &SOUND);
    assert_eq!(jobs.len(), 9);
    all_are(&jobs, "success");
    for job in &jobs {
        for (name, _, said) in &job.steps {
            let may_be_taken = said.contains("orch-bin");
            assert!(!said.contains("is taken") || may_be_taken, "{name}: {said}");
        }
    }
    let keys = github.keys();
    for kind in ["ubuntu-24.04", "ubuntu-22.04"] {
        let own = format!("orch-store-{kind}-");
        assert!(keys.iter().any(|key| key.starts_with(&own)), "{keys:?}");
    }
}

/// A disk that is full belongs to a machine and not to a model.
#[test]
fn a_full_disk_is_red_and_its_next_attempt_green() {
    if !may_mount() {
        return;
    }
    let github = github();
    let mut run = github.run(1, "push");
    let small = "mkdir -p cache && mount -t tmpfs -o size=64k tmpfs cache && exec \"$@\"";
    let starter = ["unshare", "-m", "sh", "-c", small, "sh"].map(str::to_owned);
    let trouble = Trouble {
        starter: Some((1, starter.to_vec())),
        ..SOUND
    };
    let jobs = github.attempt(&run, &trouble);
    let red: Vec<_> = jobs.iter().filter(|job| job.result == "failure").collect();
    assert_eq!(red.len(), 1, "{jobs:#?}");
    let (_, said) = red[0].step("Run");
    assert!(said.contains("No space left on device"), "{said}");
    run.attempt = 2;
    all_are(&github.attempt(&run, &SOUND), "success");
}

/// Whether a file system can be mounted here, as root can.
fn may_mount() -> bool {
    let may = std::process::Command::new("unshare")
        .args([
            "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt",
        ])
        .output()
        .is_ok_and(|done| done.status.success());
    if !may {
        skipped("no file system can be mounted here");
    }
    may
}
