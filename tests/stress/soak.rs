//! A project that is edited at random, on one store: each state gives what an empty store gives. And kills beside a collector of
//! garbage that takes all it may: whatever is lost is made again, and no step is called failed for it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rand::Rng;
use rand::seq::IndexedRandom as _;

use crate::scene::Scene;
use crate::support::{Sandbox, signal};
use crate::{rng, setting};

/// What a program can tell of its inputs: names, kinds, modes, sizes, content, and an archive of it all.
const SEEN: &str = "find in -printf \"%p %y %m %s\\\\n\" | sort | grep -v \"^in d\" > out; \
    find in -type f | sort | xargs cat | cksum >> out; \
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - in | cksum >> out";

/// What it can tell of links: where they lead is another place each time.
const LENT: &str = "find -L in -type f -printf \"%p %s\\n\" | sort > out; \
    find -L in -type f | sort | xargs cat | cksum >> out";

fn spec() -> String {
    let step = |name: &str, input: &str| {
        let script = if name == "lent" { LENT } else { SEEN };
        format!(
            "  {name}: {{argv: [sh, -c, '{script}'], inputs: {{in: {input}}}, outputs: [out]}}\n"
        )
    };
    let make = "  made: {argv: [sh, -c, 'mkdir out; cp -r in out/all; seq 1 400000 > out/large; cat in/* 2>/dev/null | head -c 9 > out/head'], \
        inputs: {in: {file: data}}, outputs: [out]}\n";
    [
        "version: 1\ncommands:\n",
        make,
        &step("folder", "{file: data}"),
        &step("one", "{file: one.txt}"),
        &step("of-made", "{step: 'command:made'}"),
        &step("lent", "{step: 'command:made', lend: true}"),
        &step("of-folder", "{step: 'command:folder'}"),
    ]
    .concat()
}

const STEPS: [&str; 6] = ["made", "folder", "one", "of-made", "lent", "of-folder"];
const FILES: [&str; 5] = [
    "one.txt",
    "data/a.txt",
    "data/b.sh",
    "data/deep/c.txt",
    "data/deep/d e.txt",
];

/// Changes something, and says what.
fn edit(project: &Path, rng: &mut impl Rng) -> String {
    let name = FILES.choose(rng).unwrap();
    let path = project.join(name);
    let number = rng.random_range(0..4_u32);
    match rng.random_range(0..9) {
        0 => fs::write(&path, format!("{number}\n")).unwrap(),
        1 => fs::write(&path, vec![b'x'; 1_100_000 + number as usize]).unwrap(),
        2 => {
            let modes = [0o600, 0o644, 0o755, 0o444, 0o700, 0o640];
            let mode = *modes.choose(rng).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            return format!("{name}: mode {mode:o}");
        }
        3 => {
            let past = SystemTime::now() - Duration::from_secs(u64::from(number) * 1000);
            fs::File::open(&path).unwrap().set_modified(past).unwrap();
        }
        4 => {
            let text = fs::read(&path).unwrap();
            fs::write(&path, [&text[..], b"more\n"].concat()).unwrap();
        }
        5 => {
            // Another file of the same content.
            let text = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, text).unwrap();
        }
        6 => {
            let extra = project.join(format!("data/extra-{number}"));
            if extra.exists() {
                fs::remove_file(extra).unwrap();
                return format!("extra-{number} is gone");
            }
            fs::write(extra, "extra").unwrap();
            return format!("extra-{number} is there");
        }
        7 => {
            let spec = project.join("spec.yaml");
            let text = fs::read_to_string(&spec).unwrap();
            fs::write(spec, format!("# {number}\n{text}")).unwrap();
            return "a comment".to_owned();
        }
        _ => {
            let folder = project.join("data/deep");
            let mode = if number % 2 == 0 { 0o700 } else { 0o755 };
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            return format!("data/deep: mode {mode:o}");
        }
    }
    (*name).to_owned()
}

/// What each step made, by a store of this name.
fn outputs(sandbox: &Sandbox, store: &str, switch: &str) -> Vec<String> {
    let command = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command
            .env("ORCH_CACHE_DIR", sandbox.path(store))
            .env("ORCH_SANDBOX", switch)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&[&done.stdout[..], &done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{args:?}: {said}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    command(&["run", "spec.yaml"]);
    let of = |step: &&str| {
        let name = format!("command:{step}");
        let listed = command(&["output", &name, "--json", "--spec", "spec.yaml"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        format!("{step} {}", listed["tree"])
    };
    STEPS.iter().map(of).collect()
}

#[test]
fn random_edits_give_what_an_empty_store_gives() {
    let states = setting("ORCH_STRESS_STATES", 8);
    let seconds = setting("ORCH_STRESS_SECONDS", 0);
    let begin = std::time::Instant::now();
    let mut rng = rng("edits");
    let mut sandbox = Sandbox::new().file("spec.yaml", spec());
    for name in FILES {
        sandbox = sandbox.file(name, format!("{name}\n"));
    }
    let project = sandbox.path("");
    let mut done = 0;
    let mut edits = Vec::new();
    while done < states || begin.elapsed().as_secs() < seconds {
        edits.extend((0..rng.random_range(1..4)).map(|_| edit(&project, &mut rng)));
        // What is kept under a key is the same with the sandbox and without.
        let switch = if rng.random_range(0..4) == 0 {
            "off"
        } else {
            "on"
        };
        let shared = outputs(&sandbox, "shared", switch);
        let fresh = outputs(&sandbox, "fresh", "on");
        assert_eq!(shared, fresh, "state {done}, after {edits:?}");
        fs::remove_dir_all(sandbox.path("fresh")).unwrap();
        done += 1;
    }
    println!("{done} states after {} edits", edits.len());
}

#[test]
fn kills_beside_a_greedy_collector_call_no_step_failed() {
    let wanted = setting("ORCH_STRESS_KILLS", 6);
    let mut rng = rng("kills beside gc");
    let mut scene = Scene::new();
    let start = |scene: &Scene, args: &[&str]| {
        let mut command = scene.sandbox.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut kills = 0;
    let mut salt = 0;
    while kills < wanted {
        salt += 1;
        scene.write(salt, false);
        let mut is_done = false;
        while !is_done {
            let mut run = start(&scene, &["run", "spec.yaml", "--jobs", "2"]);
            let end = std::time::Instant::now() + Duration::from_millis(rng.random_range(20..1500));
            let mut collector = None;
            while run.try_wait().unwrap().is_none() && std::time::Instant::now() < end {
                let size = ["0", "20k", "1M"].choose(&mut rng).unwrap();
                let mut gc = start(&scene, &["cache", "gc", "--max-size", size]);
                std::thread::sleep(Duration::from_millis(rng.random_range(0..40)));
                if rng.random_range(0..3) == 0 {
                    signal(&gc, libc::SIGKILL);
                    kills += 1;
                }
                gc.wait().unwrap();
                collector = Some(gc);
            }
            drop(collector);
            if run.try_wait().unwrap().is_none() && rng.random_range(0..2) == 0 {
                signal(&run, libc::SIGKILL);
                kills += 1;
            } else {
                is_done = true;
            }
            let ended = scene.sandbox.wait(run);
            assert!(
                !ended.stderr.contains("FAIL"),
                "salt {salt}: {}",
                ended.stderr
            );
            if is_done {
                ended.success();
            }
        }
        scene
            .sandbox
            .run(["cache", "verify"])
            .success()
            .stdout_has("everything is as it was published");
    }
    println!("{kills} kills with {salt} specs");
}
