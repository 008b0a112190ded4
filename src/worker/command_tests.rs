//! Programs run as steps run them: what is taken, what is left, what is seen, how they are ended.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::base::fs as bfs;
use crate::confine::Enforced;
use crate::step::{Access, StoredFile};
use crate::worker::Cancel;
use crate::worker::testing::{eventually, is_alive};

/// A project with a store in it, as `cache/` lies in the user's folder.
struct Place {
    dir: tempfile::TempDir,
    workplace: Workplace,
    trees: BTreeMap<String, Vec<StoredFile>>,
    cancel: Cancel,
    network: bool,
    memory: Option<u64>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [project, store, out] =
            ["project", "project/store", "out"].map(|name| dir.path().join(name));
        fs::create_dir_all(&store)
            .and_then(|()| fs::create_dir(out))
            .unwrap();
        let sandboxes = store.canonicalize().unwrap().join("tmp");
        let workplace = Workplace {
            sandboxes,
            project: Project::new(&project, &[&store]),
        };
        Self {
            dir,
            workplace,
            trees: BTreeMap::new(),
            cancel: Cancel::default(),
            network: false,
            memory: None,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        bfs::write_atomic(&self.at(name), bytes.as_ref()).unwrap();
        self.at(name)
    }

    fn run(
        &self,
        script: &str,
        inputs: &[(&str, PathBuf)],
        outputs: &[&str],
        timeout: Duration,
    ) -> Ended {
        let call = CommandCall {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            inputs: inputs
                .iter()
                .map(|(name, from)| ((*name).to_owned(), from.clone()))
                .collect(),
            trees: self.trees.clone(),
            outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
            env: Vec::new(),
            access: Access {
                write: vec![self.at("out")],
                network: self.network,
                home: false,
            },
        };
        let log = self.at("logs/one.log");
        let _ = fs::remove_file(&log);
        let limits = Limits {
            memory: self.memory,
            ..Limits::of_time(timeout, &self.cancel, &log)
        };
        let mut ran = run_command(&call, &self.workplace, &self.at("out"), &limits).unwrap();
        // As the store would.
        for (name, at) in &ran.files {
            let to = self.at("taken").join(name);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(at, to).unwrap();
        }
        std::mem::replace(&mut ran.ended, Ended::Interrupted)
    }

    #[track_caller]
    fn answers(
        &self,
        script: &str,
        inputs: &[(&str, PathBuf)],
        outputs: &[&str],
        status: JobStatus,
    ) -> JobOutput {
        match self.run(script, inputs, outputs, Duration::from_secs(30)) {
            Ended::Answered(output) if output.status == status => output,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn passes(
        &self,
        script: &str,
        inputs: &[(&str, PathBuf)],
        outputs: &[&str],
    ) -> serde_json::Value {
        self.answers(script, inputs, outputs, JobStatus::Ok).facts
    }

    #[track_caller]
    fn fails(&self, script: &str, outputs: &[&str]) -> String {
        self.answers(script, &[], outputs, JobStatus::Error)
            .reason
            .unwrap()
    }

    /// The output of the last program, if it left a log.
    fn said(&self) -> Option<String> {
        fs::read_to_string(self.at("logs/one.log")).ok()
    }

    /// The number that a program wrote into `out/pid`.
    fn pid(&self) -> i32 {
        fs::read_to_string(self.at("out/pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }
}

fn stored(path: &str, at: &Path, is_lent: bool) -> StoredFile {
    StoredFile {
        path: path.into(),
        at: at.to_owned(),
        is_lent,
    }
}

#[test]
fn outputs_are_moved() {
    let place = Place::new();
    place.passes(
        "mkdir d; echo x > d/a; ls -i d/a > inode",
        &[],
        &["d", "inode"],
    );
    let made = fs::read_to_string(place.at("taken/inode")).unwrap();
    let inode = fs::metadata(place.at("taken/d/a"))
        .unwrap()
        .ino()
        .to_string();
    assert_eq!(
        made.split_whitespace().next(),
        Some(inode.as_str()),
        "it was copied"
    );
}

#[test]
fn an_output_that_is_a_link_or_missing_is_the_programs_fault() {
    let place = Place::new();
    let why = place.fails("ln -s /etc/hostname out", &["out"]);
    assert_eq!(
        why,
        "`sh` ended well but made its output `out` a symbolic link; hint: make it a regular file"
    );
    let why = place.fails("true", &["out"]);
    assert_eq!(
        why,
        "`sh` ended well but did not make its declared output `out`"
    );
}

#[test]
fn silence_leaves_no_log_and_speech_a_whole_one() {
    let place = Place::new();
    place.passes("true", &[], &[]);
    assert_eq!(place.said(), None);
    // Longer than a pipe holds, on both streams.
    place.passes(
        "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last >&2",
        &[],
        &[],
    );
    let said = place.said().unwrap();
    assert_eq!(said.lines().count(), 20_001);
    assert!(said.starts_with("line 0\n") && said.ends_with("line 19999\nlast\n"));
    let why = place.fails("echo first; echo no disk >&2; exit 3", &[]);
    assert_eq!(why, "`sh` ended with exit status: 3: no disk");
}

#[test]
fn what_is_said_can_be_read_while_it_runs() {
    let place = Place::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the log speaks", || {
                place.said().is_some_and(|said| said == "working\n")
            });
            place.cancel.cancel();
        });
        let ended = place.run("echo working; sleep 100", &[], &[], Duration::from_secs(60));
        assert!(matches!(ended, Ended::Interrupted), "{ended:?}");
    });
}

#[test]
fn a_hanging_program_is_ended_with_all_that_it_started() {
    let place = Place::new();
    let pid_file = place.at("out/pid");
    let script = format!(
        "trap '' TERM; (trap '' TERM; sleep 100) & echo $! > {}; wait",
        pid_file.display()
    );
    let start = Instant::now();
    let ended = place.run(&script, &[], &[], Duration::from_millis(300));
    assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(20));
    eventually("the grandchild is gone", || !is_alive(place.pid()));
}

#[test]
fn a_background_process_ends_with_its_step() {
    let place = Place::new();
    let pid_file = place.at("out/pid");
    place.passes(
        &format!("sleep 100 & echo $! > {}", pid_file.display()),
        &[],
        &[],
    );
    eventually("it is gone", || !is_alive(place.pid()));
}

/// A process that went to a session of its own, whose parent has ended, and whose environment is empty.
#[cfg(target_os = "linux")]
fn escape(pid_file: &Path) -> String {
    let path = pid_file.display();
    format!(
        "(setsid env -i sh -c 'echo $$ > {path}; sleep 100' &) < /dev/null; while [ ! -s {path} ]; do sleep 0.01; done"
    )
}

#[cfg(target_os = "linux")]
#[test]
fn who_leaves_its_group_and_session_is_ended_with_the_step_and_told() {
    let place = Place::new();
    let pid_file = place.at("out/pid");
    let facts = place.passes(&escape(&pid_file), &[], &[]);
    assert!(!is_alive(place.pid()));
    let left = facts["left_behind"].as_array().unwrap();
    // Another test that ends at the same moment may have found them first.
    assert!(left[0] == "sh" || left[0] == "a process", "{facts}");
    fs::remove_file(&pid_file).unwrap();
    place.fails(&format!("{}; kill -9 $$", escape(&pid_file)), &[]);
    assert!(!is_alive(place.pid()), "after a crash");
    fs::remove_file(&pid_file).unwrap();
    let ended = place.run(
        &format!("{}; sleep 100", escape(&pid_file)),
        &[],
        &[],
        Duration::from_millis(500),
    );
    assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
    assert!(!is_alive(place.pid()), "after its time");
}

#[test]
fn a_program_is_asked_to_end_and_may_clean_up() {
    let place = Place::new();
    let mark = place.at("out/clean");
    let script = format!(
        "trap 'echo x > {}; exit 0' TERM; while :; do sleep 0.05; done",
        mark.display()
    );
    let ended = place.run(&script, &[], &[], Duration::from_millis(300));
    assert!(
        matches!(ended, Ended::TimedOut),
        "an end that was asked for is none of its own: {ended:?}"
    );
    assert!(mark.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_without_end_is_told_with_both_figures_whoever_takes_it() {
    const LIMIT: u64 = 200 << 20;
    let place = Place {
        memory: Some(LIMIT),
        ..Place::new()
    };
    let minute = Duration::from_secs(60);
    let eat = "b = []\nwhile True: b.append(bytearray(b'x') * (4 << 20))";
    for script in [
        format!("exec python3 -c \"{eat}\""),
        format!("python3 -c \"{eat}\" & wait"),
    ] {
        let ended = place.run(&script, &[], &[], minute);
        let Ended::OutOfMemory(why) = ended else {
            panic!("{ended:?}")
        };
        assert!(
            why.starts_with("it held ") && why.ends_with(", more than its limit of 200 MiB"),
            "{why}"
        );
    }
    // Pages that a fork shares are counted once.
    let share = "import os, time\nb = bytearray(b'x') * (90 << 20)\nfor i in range(4): os.fork() or (time.sleep(1.5), os._exit(0))\nfor i in range(4): os.wait()";
    let ended = place.run(&format!("exec python3 -c \"{share}\""), &[], &[], minute);
    assert!(
        matches!(&ended, Ended::Answered(output) if output.status == JobStatus::Ok),
        "{ended:?}"
    );
}

#[test]
fn a_flood_of_words_is_bounded() {
    let place = Place::new();
    place.passes("echo first; yes | head -c 100000000; echo last", &[], &[]);
    let said = place.said().unwrap();
    assert!(said.len() < 11 << 20, "{}", said.len());
    assert!(said.starts_with("first\n") && said.ends_with("last\n"));
    assert!(said.contains("bytes of the output are left out here]"));
}

#[test]
fn one_step_sees_nothing_of_the_one_before() {
    let place = Place::new();
    let input = place.write("project/in", "x");
    for _ in 0..3 {
        place.passes(
            "test \"$(ls -A)\" = in && test -z \"$(ls -A $HOME $TMPDIR | grep -v :)\" && echo x > $HOME/.rc && \
             mkdir -p $TMPDIR/a/b left && chmod 555 $TMPDIR/a left && echo y > in",
            &[("in", input.clone())],
            &[],
        );
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), "x");
}

#[test]
fn nobody_writes_to_a_shared_input_or_outside_of_his_folders() {
    let mut place = Place::new();
    let large = place.write("project/store/blob", "whole");
    let project = place.at("project").display().to_string();
    place.trees = BTreeMap::from([("in".to_owned(), vec![stored("model.bin", &large, true)])]);
    place.passes(
        "cd in && cmp model.bin model.bin && rm -f model.bin && echo own > model.bin",
        &[],
        &[],
    );
    if !Enforced::here().is_some() {
        return;
    }
    for script in [
        "echo x >> in/model.bin",
        "chmod u+w in/model.bin; echo x >> in/model.bin",
    ] {
        let why = place.fails(script, &[]);
        assert!(
            why.ends_with(HINT) && why.contains("Permission denied"),
            "{why}"
        );
    }
    for script in [
        format!("echo x > {project}/new"),
        format!("rm {}", large.display()),
        format!("mkdir {project}/d"),
    ] {
        place.fails(&script, &[]);
    }
    assert_eq!(fs::read_to_string(large).unwrap(), "whole");
    assert_eq!(fs::read_dir(project).unwrap().count(), 1, "only the store");
}

#[test]
fn nobody_reaches_the_network_who_did_not_ask() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'",
        listener.local_addr().unwrap().port()
    );
    let mut place = Place::new();
    if Enforced::here().denies_tcp() {
        assert!(place.fails(&script, &[]).ends_with(HINT));
    }
    place.network = true;
    place.passes(&script, &[], &[]);
}

#[test]
fn a_file_of_a_tree_that_went_is_told_and_nothing_is_run() {
    let mut place = Place::new();
    place.trees = BTreeMap::from([(
        "in".to_owned(),
        vec![stored("x", &place.at("project/store/gone"), false)],
    )]);
    let call = CommandCall {
        argv: vec!["touch".into(), place.at("ran").display().to_string()],
        trees: place.trees.clone(),
        ..CommandCall::default()
    };
    let log = place.at("log");
    let limits = Limits::of_time(Duration::from_secs(30), &place.cancel, &log);
    let gone = run_command(&call, &place.workplace, &place.at("out"), &limits)
        .err()
        .expect("it was run");
    assert_eq!(gone.input, "in");
    assert!(!place.at("ran").exists());
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod watched {
    use super::*;
    use serde_json::json;

    /// False where the kernel or a container refuses, which the facts must say.
    fn is_watched(facts: &serde_json::Value) -> bool {
        let reads = facts["reads"].as_str().unwrap();
        assert!(
            reads == "watched" || reads.starts_with("not watched: "),
            "{facts}"
        );
        reads == "watched"
    }

    #[test]
    fn undeclared_reads_are_found_in_every_way_of_reading() {
        let place = Place::new();
        let file = place.write("project/conf/x.txt", "x\n");
        let folder = file.parent().unwrap().display().to_string();
        let tool = place.write("project/conf/tool", "#!/bin/sh\ntrue\n");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&tool, executable).unwrap();
        for (script, found) in [
            (format!("cat {folder}/x.txt"), "conf/x.txt"),
            (
                format!("read line < {folder}/../conf/./x.txt"),
                "conf/x.txt",
            ),
            (format!("cd {folder} && cat x.txt"), "conf/x.txt"),
            (
                format!("cd /; sh -c \"(cat {folder}/x.txt) & wait\""),
                "conf/x.txt",
            ),
            (format!("{folder}/tool"), "conf/tool"),
        ] {
            let facts = place.passes(&script, &[], &[]);
            if is_watched(&facts) {
                assert_eq!(facts["undeclared"], json!([found]), "{script}");
                assert_eq!(facts["undeclared_count"], 1, "{script}");
            }
        }
    }

    #[test]
    fn what_is_declared_made_listed_or_written_is_no_finding() {
        let place = Place::new();
        let declared = place.write("project/data/in", "x");
        place.write("project/other", "x");
        let project = place.at("project").display().to_string();
        let script = format!(
            "cat in {0}/data/in /etc/hostname; echo y > made; cat made; cat < made > out; ls {0}; test -f {0}/other; \
             echo z >> {0}/log; cat {0}/missing; true",
            project
        );
        let facts = place.passes(&script, &[("in", declared)], &["out"]);
        assert!(facts.get("undeclared").is_none(), "{facts}");
    }

    #[test]
    fn many_processes_at_a_time_are_all_answered() {
        let place = Place::new();
        let file = place.write("project/x", "x").display().to_string();
        let script =
            format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat {file} {file} & done; wait");
        let facts = place.passes(&script, &[], &[]);
        assert_eq!(place.said().unwrap().len(), 24);
        if is_watched(&facts) {
            assert_eq!(facts["undeclared"], json!(["x"]));
        }
    }
}
