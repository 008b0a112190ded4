//! Four orchs and a collector of garbage on one store, killed at random moments, again and again.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::seq::SliceRandom;

use crate::scene::{Scene, complaints};
use crate::support::{eventually, processes_with, signal};
use crate::{rng, setting};

const ORCHS: usize = 4;
/// A round that takes longer has come to a deadlock.
const LONGEST: Duration = Duration::from_secs(120);

/// A process whose words go to a file, so that they outlive it.
struct Running {
    child: Child,
    name: String,
    killed: bool,
    ended: Option<ExitStatus>,
}

impl Running {
    fn start(scene: &Scene, name: &str, args: &[&str]) -> Self {
        let stream =
            |end: &str| File::create(scene.sandbox.path(&format!("{name}.{end}"))).unwrap();
        let mut command = scene.sandbox.command(args);
        let child = command
            .stdout(stream("stdout"))
            .stderr(stream("stderr"))
            .spawn()
            .unwrap();
        Self {
            child,
            name: name.into(),
            killed: false,
            ended: None,
        }
    }

    fn is_over(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_some()
    }

    /// False if it ended before.
    fn kill(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        signal(&self.child, libc::SIGKILL);
        let status = self.child.wait().unwrap();
        self.ended = Some(status);
        self.killed = status.signal() == Some(libc::SIGKILL);
        self.killed
    }

    fn stderr(&self, scene: &Scene) -> String {
        scene.sandbox.read(&format!("{}.stderr", self.name))
    }
}

/// What cleans up beside the others: the collector of garbage, and healing, which writes the log anew.
struct Janitor {
    ways: Vec<Vec<&'static str>>,
    turn: usize,
}

impl Janitor {
    fn new(scene: &Scene) -> Self {
        let mut ways = vec![vec!["cache", "verify", "--heal"]];
        if scene.sandbox.run(["cache", "gc", "--help"]).code == Some(0) {
            ways.push(vec!["cache", "gc", "--keep-last", "1"]);
        }
        Self { ways, turn: 0 }
    }

    fn start(&mut self, scene: &Scene) -> Running {
        self.turn += 1;
        Running::start(scene, "janitor", &self.ways[self.turn % self.ways.len()])
    }
}

fn run(scene: &Scene, name: &str) -> Running {
    let out_dir = format!("out-{name}");
    Running::start(
        scene,
        name,
        &[
            "run",
            "spec.yaml",
            "--json",
            "--jobs",
            "2",
            "--out-dir",
            &out_dir,
        ],
    )
}

/// One spec, brought to its end through kills. Gives how many there were and how long it took.
fn round(
    scene: &mut Scene,
    janitor: &mut Janitor,
    rng: &mut impl Rng,
    salt: u64,
    span: Duration,
) -> (u64, Duration) {
    scene.write(salt, true);
    scene.forget_notes();
    let start = Instant::now();
    let mut runs: Vec<_> = (0..ORCHS).map(|n| run(scene, &format!("run{n}"))).collect();
    let mut cleaning = janitor.start(scene);
    let mut victims: Vec<_> = (0..=ORCHS).collect();
    victims.shuffle(rng);
    victims.truncate(rng.random_range(1..=ORCHS + 1));
    let mut kills: Vec<_> = victims
        .into_iter()
        .map(|who| (span.mul_f64(rng.random()), who))
        .collect();
    if span.is_zero() {
        kills.clear();
    }
    kills.sort();
    kills.reverse();
    let mut killed = 0;
    while kills.last().is_some() || !runs.iter_mut().all(Running::is_over) {
        if cleaning.is_over() {
            cleaning = janitor.start(scene);
        }
        if let Some((_, who)) = kills.pop_if(|(when, _)| *when <= start.elapsed()) {
            let victim = if who < ORCHS {
                &mut runs[who]
            } else {
                &mut cleaning
            };
            killed += u64::from(victim.kill());
        }
        let said = || runs.iter().map(|run| run.stderr(scene)).collect::<String>();
        assert!(
            start.elapsed() < LONGEST,
            "a deadlock, with salt {salt}: {}",
            said()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = start.elapsed();
    cleaning.child.wait().unwrap();
    let notes = scene.notes_path().display().to_string();
    eventually("no process is left", || processes_with(&notes).is_empty());
    scene
        .sandbox
        .run(["cache", "verify"])
        .success()
        .stdout_has("everything is as it was published");

    let mut ok = BTreeSet::new();
    let mut dead = BTreeSet::new();
    for run in &runs {
        let said = run.stderr(scene);
        ok.extend(Scene::reported_ok(&said));
        if run.killed {
            dead.insert(run.child.id());
            continue;
        }
        let is_odd = |line: &&str| {
            line.starts_with("warning")
                || line.starts_with("error")
                || line.starts_with("FAIL") && !line.contains(":fails ")
        };
        assert_eq!(said.lines().find(is_odd), None, "salt {salt}: {said}");
        assert_eq!(run.ended.unwrap().code(), Some(1), "salt {salt}: {said}");
    }
    // What was said to be done is not done again.
    let before = scene.notes().len();
    let mut last = run(scene, "last");
    assert_eq!(
        last.child.wait().unwrap().code(),
        Some(1),
        "salt {salt}: {}",
        last.stderr(scene)
    );
    let notes = scene.notes();
    let again: Vec<_> = notes[before..]
        .iter()
        .filter(|note| ok.contains(&note.step))
        .collect();
    assert!(again.is_empty(), "salt {salt}: lost {again:?}");
    let complaints = complaints(&notes, &dead);
    assert!(
        complaints.is_empty(),
        "salt {salt}, killed {dead:?}: {complaints:?}\n{notes:?}"
    );
    let left = std::fs::read_dir(scene.sandbox.store("tmp"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "salt {salt}: working folders are left");
    let done = scene.notes().len();
    let mut nothing = run(scene, "nothing");
    nothing.child.wait().unwrap();
    assert!(
        scene.notes()[done..]
            .iter()
            .all(|note| note.step == "fails"),
        "salt {salt}: {:?}",
        &scene.notes()[done..]
    );
    scene
        .sandbox
        .run(["cache", "verify"])
        .success()
        .stdout_has("everything is as it was published");
    (killed, took)
}

#[test]
fn kills_at_random_moments_lose_nothing() {
    let wanted = setting("ORCH_STRESS_KILLS", 12);
    let mut rng = rng("kills");
    let mut scene = Scene::new();
    let mut janitor = Janitor::new(&scene);
    let mut kills = 0;
    let mut rounds = 0;
    let (_, mut span) = round(&mut scene, &mut janitor, &mut rng, 0, Duration::ZERO);
    while kills < wanted {
        rounds += 1;
        let (killed, took) = round(&mut scene, &mut janitor, &mut rng, rounds, span);
        kills += killed;
        // Kills make a round longer or shorter; the moments are to be spread over all of one.
        span = (span * 3 + took.min(span * 2)) / 4;
    }
    println!("{kills} kills in {rounds} rounds, with {:?}", janitor.ways);
}
