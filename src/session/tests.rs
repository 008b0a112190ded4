//! A program that uses the library: the same door as the command line's.

use std::fs;

use super::*;
use crate::event::Event;
use crate::plan::Clock;
use crate::session::request::measuring_flags;

const SPEC: &str =
    "version: 1\ncommands:\n  made: {write: {a.txt: one}}\n  other: {write: {b.txt: two}}\n";

struct Scene {
    dir: tempfile::TempDir,
    locations: Locations,
    settings: Settings,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("spec.yaml"), SPEC).unwrap();
        let locations = Locations {
            cache_dir: dir.path().join("cache"),
            ..Locations::default()
        };
        let settings = Settings {
            out_dir: dir.path().join("out"),
            no_remote: true,
            ..Settings::default()
        };
        Self {
            dir,
            locations,
            settings,
        }
    }

    fn request(&self) -> Request {
        Request::all(&self.dir.path().join("spec.yaml"))
    }

    /// The steps that a run of this executes, besides the report.
    fn executed(&self, request: &Request) -> Vec<String> {
        let session = Session::open(&self.locations).unwrap();
        let tell = |text: &str| panic!("orch says: {text}");
        let planned = session.plan(request, Ask::Installed, &tell).unwrap();
        let mut run = session
            .run(planned, &self.settings, &|_: Event| {}, &|_| {})
            .unwrap();
        std::mem::replace(&mut run.written, Ok(())).unwrap();
        let mut executed = run.executed();
        executed.sort();
        session.keep(run, request, &self.settings, &tell);
        executed
    }

    fn is_recalled(&self, request: &Request) -> bool {
        recall(&self.locations, request, &self.settings)
            .unwrap()
            .is_some()
    }
}

#[test]
fn a_request_becomes_a_run_and_a_second_one_is_recalled_until_the_spec_differs() {
    let scene = Scene::new();
    let all = scene.request();
    assert!(!scene.is_recalled(&all));
    assert_eq!(scene.executed(&all), ["command:made", "command:other"]);
    assert!(scene.dir.path().join("out/report/index.html").is_file());
    assert!(scene.is_recalled(&all));
    // Whoever asks for a part, or for a step again, gets a run.
    assert!(!scene.is_recalled(&Request {
        steps: vec!["command:made".into()],
        ..all.clone()
    }));
    let again = Request {
        rerun: vec!["command:made".into()],
        ..all.clone()
    };
    assert!(!scene.is_recalled(&again));
    assert_eq!(scene.executed(&again), ["command:made"]);
    fs::write(
        scene.dir.path().join("spec.yaml"),
        SPEC.replace("two", "three"),
    )
    .unwrap();
    assert!(!scene.is_recalled(&all));
    assert_eq!(scene.executed(&all), ["command:other"]);
}

#[test]
fn what_the_user_did_wrong_is_distinguished() {
    let scene = Scene::new();
    let session = Session::open(&scene.locations).unwrap();
    let wrong = Request {
        steps: vec!["command:mad".into()],
        ..scene.request()
    };
    let error = session
        .plan(&wrong, Ask::Installed, &|_| {})
        .map(drop)
        .unwrap_err();
    assert!(
        error.is::<UsageError>() && error.to_string().contains("did you mean `command:made`"),
        "{error:#}"
    );
}

#[test]
fn a_reproducer_repeats_what_is_not_where_it_usually_is() {
    let usual = Locations {
        cache_dir: "cache".into(),
        ..Locations::default()
    };
    let settings = Settings::default();
    assert_eq!(
        [
            usual.flags(),
            measuring_flags(Default::default(), &Clock::default()),
            settings.flags()
        ],
        [""; 3]
    );
    let unusual = Locations {
        cache_dir: "a b".into(),
        python: Some("py".into()),
        ..Locations::default()
    };
    let settings = Settings {
        out_dir: "out".into(),
        job_memory: Some(7),
        ..settings
    };
    let checking = Clock {
        is_stopped: true,
        ..Clock::default()
    };
    assert_eq!(unusual.flags(), " --cache-dir 'a b' --python py");
    let flags = measuring_flags(crate::matrix::Fallback::Usual, &checking);
    assert_eq!(flags, " --fallback --check");
    assert_eq!(settings.flags(), " --out-dir out --job-memory 7");
}
