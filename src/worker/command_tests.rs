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
                shared: Vec::new(),
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
    fn log(&self) -> Option<String> {
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
    assert_eq!(place.log(), None);
    // Longer than a pipe holds, on both streams.
    place.passes(
        "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last >&2",
        &[],
        &[],
    );
    let log = place.log().unwrap();
    assert_eq!(log.lines().count(), 20_001);
    assert!(log.starts_with("line 0\n") && log.ends_with("line 19999\nlast\n"));
    let why = place.fails("echo first; echo no disk >&2; exit 3", &[]);
    assert_eq!(why, "`sh` ended with exit status: 3: no disk");
}

#[test]
fn the_log_can_be_read_while_it_runs() {
    let place = Place::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the log speaks", || {
                place.log().is_some_and(|log| log == "working\n")
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
fn who_leaves_its_group_and_session_is_ended_with_the_step_and_reported() {
    let place = Place::new();
    let pid_file = place.at("out/pid");
    let facts = place.passes(&escape(&pid_file), &[], &[]);
    assert!(!is_alive(place.pid()));
    // Another test that ends at the same moment may have found it first.
    if let Some(left) = facts["left_behind"].as_array() {
        assert!(left[0] == "sh" || left[0] == "sleep", "{facts}");
    }
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
fn a_program_gets_sigterm_first_and_may_clean_up() {
    let place = Place::new();
    let mark = place.at("out/clean");
    let script = format!(
        "trap 'echo x > {}; exit 0' TERM; while :; do sleep 0.05; done",
        mark.display()
    );
    let ended = place.run(&script, &[], &[], Duration::from_millis(300));
    assert!(
        matches!(ended, Ended::TimedOut),
        "an end that was requested is none of its own: {ended:?}"
    );
    assert!(mark.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_without_end_is_reported_with_both_figures_whoever_takes_it() {
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
    let log = place.log().unwrap();
    assert!(log.len() < 11 << 20, "{}", log.len());
    assert!(log.starts_with("first\n") && log.ends_with("last\n"));
    assert!(log.contains("bytes of the output are left out here]"));
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
fn no_program_reaches_the_network_that_did_not_request_it() {
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
fn a_file_of_a_tree_that_went_is_reported_and_nothing_is_run() {
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

#[test]
fn it_gets_its_arguments_folder_and_streams() {
    let place = Place::new();
    let facts = place.passes("pwd > out; echo said >&2; cat; echo $HOME", &[], &["out"]);
    assert_eq!(
        facts["argv"][2],
        "pwd > out; echo said >&2; cat; echo $HOME"
    );
    let log = place.log().unwrap();
    assert!(
        log.starts_with("said\n") && log.ends_with("/home\n"),
        "{log:?}"
    );
    let taken = fs::read_to_string(place.at("taken/out")).unwrap();
    assert!(taken.trim_end().ends_with("/cwd"), "{taken}");
}

#[cfg(target_os = "linux")]
#[test]
fn it_leads_a_group_and_inherits_no_signal_setting() {
    let place = Place::new();
    // Rust ignores SIGPIPE in its own programs; a program that inherited that would never end in `| head`.
    let script =
        "grep -E '^Sig(Blk|Ign)' /proc/self/status; test $(ps -o pgid= -p $$) = $$ && echo leads";
    place.passes(script, &[], &[]);
    let log = place.log().unwrap();
    assert!(log.ends_with("leads\n"), "{log}");
    let sets = log.lines().filter_map(|line| line.split_once(":\t"));
    let sets: Vec<_> = sets
        .map(|(name, set)| (name, u64::from_str_radix(set, 16).unwrap()))
        .collect();
    let pipe = 1 << (libc::SIGPIPE - 1);
    assert!(
        matches!(sets[..], [("SigBlk", 0), ("SigIgn", ignored)] if ignored & pipe == 0),
        "{log:?}"
    );
}

#[test]
fn a_script_without_a_first_line_runs_and_what_cannot_be_executed_is_an_error() {
    let place = Place::new();
    let bare = place.write("bare", "echo $1");
    let run = |program: &Path| {
        let call = CommandCall {
            argv: vec![program.display().to_string(), "given".to_owned()],
            ..CommandCall::default()
        };
        let log = place.at("logs/one.log");
        let limits = Limits::of_time(Duration::from_secs(30), &place.cancel, &log);
        match run_command(&call, &place.workplace, &place.at("out"), &limits).map(|ran| ran.ended) {
            Ok(Ended::Answered(output)) => output.reason,
            other => panic!("{other:?}"),
        }
    };
    let why = run(Path::new("no-such-program")).unwrap();
    assert!(why.contains("No such file or directory"), "{why}");
    assert!(run(&bare).unwrap().contains("Permission denied"));
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&bare, executable).unwrap();
    assert_eq!(run(&bare), None);
    assert_eq!(place.log().unwrap(), "given\n");
}

#[test]
fn files_of_the_project_are_read_only_where_they_are_declared() {
    if !Enforced::here().is_some() {
        return;
    }
    let place = Place::new();
    let declared = place.write("project/data/in", "x\n");
    place.write("project/conf/x.txt", "x\n");
    let project = place.at("project").display().to_string();
    for script in [
        format!("cat {project}/conf/x.txt"),
        format!("read line < {project}/conf/./x.txt"),
        format!("cd {project}/conf && sh -c 'cat x.txt'"),
        format!("ln -s {project}/conf/x.txt link && cat link"),
    ] {
        let why = place.fails(&script, &[]);
        assert!(
            why.contains("denied") && why.ends_with(HINT),
            "{script}: {why}"
        );
    }
    let script = format!(
        "cat in {project}/data/in /etc/hostname; echo y > made; cat made; cat < made > out; ls {project}; \
         test -f {project}/conf/x.txt"
    );
    place.passes(&script, &[("in", declared)], &["out"]);
}
