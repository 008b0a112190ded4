//! Single bits, flipped anywhere in the store: found, told, and healed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::scene::Scene;
use crate::support::Sandbox;
use crate::{rng, setting};

const RUN: [&str; 5] = ["run", "spec.yaml", "--json", "--jobs", "2"];

/// The log as often as all blobs together.
fn victim(sandbox: &Sandbox, rng: &mut impl Rng) -> PathBuf {
    let mut blobs = sandbox.stored_files("blobs");
    blobs.retain(|path| fs::metadata(path).unwrap().len() > 0);
    if rng.random() {
        sandbox.store("log")
    } else {
        blobs.choose(rng).unwrap().clone()
    }
}

fn flip(path: &Path, rng: &mut impl Rng) -> String {
    let mut bytes = fs::read(path).unwrap();
    let at = rng.random_range(0..bytes.len());
    let bit = rng.random_range(0..8);
    bytes[at] ^= 1 << bit;
    let mode = fs::metadata(path).unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, mode).unwrap();
    format!("bit {bit} of byte {at} of {}", path.display())
}

#[test]
fn every_flipped_bit_is_found_and_heals() {
    let flips = setting("ORCH_STRESS_FLIPS", 10);
    let mut rng = rng("flips");
    let mut scene = Scene::new();
    scene.write(1, false);
    scene.sandbox.run(RUN).success();
    let clean = scene.trees();
    for n in 0..flips {
        let what = flip(&victim(&scene.sandbox, &mut rng), &mut rng);
        println!("{n}: {what}");
        scene
            .sandbox
            .run(["cache", "verify"])
            .code(1)
            .stdout_has("v2/");
        if n % 2 == 1 {
            // Nothing was healed by hand: whatever reads the damaged thing has to notice.
            let all: Vec<_> = scene
                .steps
                .iter()
                .map(|step| format!("--rerun=command:{step}"))
                .collect();
            let readers = all
                .iter()
                .filter(|step| !step.contains(":m") && !step.contains(":w"));
            scene
                .sandbox
                .run(RUN.into_iter().chain(readers.map(String::as_str)))
                .success();
        }
        // Damage of what nobody has read since stays until it is taken out.
        scene.sandbox.run(["cache", "verify", "--heal"]).success();
        scene.sandbox.run(["cache", "verify"]).success();
        scene.sandbox.run(RUN).success().stderr_lacks("warning");
        assert_eq!(scene.trees(), clean, "{what}");
        scene
            .sandbox
            .run(RUN)
            .success()
            .summary([("executed", 0), ("failed", 0)]);
    }
}

#[test]
fn what_a_power_failure_may_leave_heals_by_running_again() {
    let mut rng = rng("power");
    let mut scene = Scene::new();
    scene.write(1, false);
    scene.sandbox.run(RUN).success();
    let clean = scene.trees();
    for n in 0..setting("ORCH_STRESS_FAILURES", 4) {
        for path in scene.sandbox.stored_files("blobs") {
            // Files whose names were kept and whose data was not.
            let Ok(size) = fs::metadata(&path).map(|meta| meta.len()) else {
                continue;
            };
            let left = match rng.random_range(0..6) {
                0 => vec![0; size as usize],
                1 => fs::read(&path).unwrap()[..rng.random_range(0..=size as usize)].to_vec(),
                2 if n > 0 => {
                    fs::remove_dir_all(path.parent().unwrap()).unwrap();
                    continue;
                }
                _ => continue,
            };
            fs::remove_file(&path).unwrap();
            fs::write(&path, left).unwrap();
        }
        let log = fs::File::options()
            .write(true)
            .open(scene.sandbox.store("log"))
            .unwrap();
        let size = log.metadata().unwrap().len();
        let kept = size - rng.random_range(0..size / 2);
        log.set_len(kept).unwrap();
        log.set_len(kept + [0, 50, 4096][n as usize % 3]).unwrap();
        if n % 2 == 0 {
            scene.sandbox.run(["cache", "verify", "--heal"]).success();
            scene.sandbox.run(["cache", "verify"]).success();
            scene.sandbox.run(RUN).success();
        } else {
            let all: Vec<_> = scene
                .steps
                .iter()
                .map(|step| format!("--rerun=command:{step}"))
                .collect();
            scene
                .sandbox
                .run(RUN.into_iter().chain(all.iter().map(String::as_str)))
                .success();
        }
        assert_eq!(scene.trees(), clean);
        scene.sandbox.run(RUN).success().summary([("executed", 0)]);
    }
}
