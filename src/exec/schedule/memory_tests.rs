//! What steps claim, of machines and of the GPUs of recorded ones, and what becomes of such claims.

use serde_json::json;

use super::*;
use crate::device::{Backend, Host as Machines, inventory_cheap};
use crate::exec::schedule::devices::Devices;
use crate::exec::schedule::resources::tests::held;
use crate::exec::schedule::resources::{DeviceClaim, Lack, Machine};
use crate::matrix::Matrix;
use crate::record::Outcome;
use crate::spec::Spec;

const SPEC: &str = "version: 1
pipelines: {text: {description: ids to logits, tasks: [fill-mask]}}
targets:
  cpu: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32]}
  rocm: &rocm {runtime: ort, backend: rocm, artefact: onnx, precisions: [fp32]}
  other: {<<: *rocm, options: {a: 1}}
models:
  bert: &bert {class: BertModel, family: encoder-only, task: fill-mask, pipeline: text,
    inputs: {ids: {dtype: int64, shape: [batch, seq], value: 1}}}
  stated: {<<: *bert, memory: 5 GiB}
commands:
  small: {argv: [x], outputs: [o]}
  large: {argv: [x], outputs: [o], memory: 300M}
";

const GIB: u64 = 1 << 30;

struct World {
    _dir: tempfile::TempDir,
    plan: Plan,
    store: DiskStore,
    memory: Memory,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("spec.yaml"), SPEC).unwrap();
        let spec = Spec::load(&dir.path().join("spec.yaml")).unwrap();
        let plan = crate::plan::build(&spec, &Matrix::of(&spec)).unwrap();
        let store = DiskStore::open(&dir.path().join("store")).unwrap();
        Self {
            _dir: dir,
            plan,
            store,
            memory: Memory::default(),
        }
    }

    fn id(&self, step: &str) -> StepId {
        self.plan
            .ids()
            .find(|id| self.plan.step(*id).name == step)
            .unwrap_or_else(|| panic!("no {step}"))
    }

    /// The claims where an artefact has 3 GiB, and everything else nothing.
    fn claims(&mut self, step: &str) -> (u64, u64) {
        let id = self.id(step);
        let plan = &self.plan;
        let size = |from: StepId| {
            if plan.step(from).stage == Stage::Convert {
                3 * GIB
            } else {
                0
            }
        };
        let known = Known {
            plan,
            store: &self.store,
            size: &size,
        };
        (
            self.memory.claim(id, &known),
            self.memory.device_claim(id, &known),
        )
    }

    fn executed(&mut self, record: &Record) -> Option<String> {
        let id = self.id(&record.step);
        self.memory.executed(id, self.plan.step(id), record)
    }

    fn record(&self, step: &str, host: u64, device: Option<u64>) -> Record {
        let measure = json!({
            "load_ms": 1.0, "first_ms": 1.0, "samples_ms": [1.0], "peak_rss_bytes": host, "peak_device_bytes": device,
            "sync": "s", "requested_device": "rocm", "actual_device": "rocm:0",
        });
        let measure = serde_json::from_value(measure).unwrap();
        Record {
            step: step.to_owned(),
            outcome: Outcome::Pass,
            measure,
            ..Record::default()
        }
    }
}

#[test]
fn a_run_on_a_gpu_claims_by_its_artefact_then_by_its_like_then_by_itself() {
    let mut world = World::new();
    let [own, other] = ["run:bert:rocm-fp32", "run:bert:other-fp32"];
    assert_eq!(world.claims(own), (7 * GIB, 7 * GIB));
    assert_eq!(world.claims("command:small"), (0, 0));
    assert_eq!(world.claims("convert:bert:onnx").1, 0);

    // A run of the same model on the CPU says nothing of a GPU's memory, and one on another GPU target does.
    let on_cpu = world.record("run:bert:cpu-fp32", 2 * GIB, None);
    assert_eq!(world.executed(&on_cpu), None);
    assert_eq!(world.claims(own), (5 * GIB / 2, 7 * GIB));
    world.executed(&world.record(other, 2 * GIB, Some(4 * GIB)));
    assert_eq!(
        (world.claims(own).1, world.claims(other).1),
        (5 * GIB, 4 * GIB)
    );

    // Its own latest record, in this run or of an earlier one, tells best.
    world.memory.learn(
        world.id(own),
        Peaks::of(Some(&world.record(own, GIB, Some(6 * GIB)))),
    );
    assert_eq!(world.claims(own), (GIB, 6 * GIB));
}

#[test]
fn what_other_runs_took_is_on_record() {
    let mut world = World::new();
    world
        .store
        .keep(
            &world.record("run:bert:other-fp32", GIB, Some(8 * GIB)),
            None,
        )
        .unwrap();
    assert_eq!(
        world.claims("run:bert:rocm-fp32"),
        (GIB + GIB / 4, 10 * GIB)
    );
}

#[test]
fn the_user_s_word_counts_before_all_else_and_is_checked() {
    let mut world = World::new();
    let [model, command] = ["run:stated:rocm-fp32", "command:large"];
    for step in [model, "convert:stated:onnx", "generate:stated"] {
        assert_eq!(world.claims(step).0, 5 * GIB, "{step}");
    }
    assert_eq!(
        world.claims(model).1,
        7 * GIB,
        "of the device nothing was stated"
    );
    assert_eq!(world.claims(command).0, 300 << 20);
    let warning = world.executed(&world.record(command, 400 << 20, None));
    assert_eq!(
        warning.unwrap(),
        "command:large took 400 MiB of memory, and its `memory` says 300 MiB"
    );
    assert_eq!(world.claims(command).0, 300 << 20);
    assert_eq!(
        world.executed(&world.record(command, 300 << 20, None)),
        None
    );
}

/// Two cards of 192 GB as the kernel lists them.
fn recorded() -> Vec<Backend> {
    inventory_cheap(&Machines::recorded("amd"))
}

fn capacity(devices: &Devices<'_>) -> Capacity {
    Capacity {
        cores: 16,
        memory: 64 * GIB,
        units: devices.units(),
        away: 0,
    }
}

fn on(devices: &Devices<'_>, device: &str, timed: bool, vram: u64) -> Claim {
    let any_of = devices.any_of("rocm", device);
    assert!(!any_of.is_empty());
    Claim {
        device: Some(DeviceClaim {
            any_of,
            timed,
            vram,
        }),
        ..Claim::CORE
    }
}

#[test]
fn untimed_steps_share_a_recorded_card_only_as_far_as_both_fit() {
    let inventory = recorded();
    let devices = Devices::new(&inventory);
    let mut machine = Machine::new(capacity(&devices));
    let first = machine.fitted(on(&devices, "rocm:0", false, 120 * GIB));
    let first = held(&mut machine, &first);
    assert_eq!(first.vram, 120 * GIB);
    let second = machine.fitted(on(&devices, "rocm:0", false, 80 * GIB));
    assert_eq!(machine.offer(&second), Err(Lack::Vram("rocm:0".into())));
    assert!(
        machine
            .offer(&machine.fitted(on(&devices, "rocm:0", false, 70 * GIB)))
            .is_ok()
    );
    // Either card will do, and there is room on the other.
    let any = machine
        .offer(&machine.fitted(on(&devices, "rocm", false, 80 * GIB)))
        .unwrap();
    assert_eq!(
        any.unit.map(|at| machine.capacity.units[at].token.as_str()),
        Some("rocm:1")
    );
    // What is larger than a card waits for it to be empty, and then nobody is let in beside it.
    let large = machine.fitted(on(&devices, "rocm:0", false, 400 * GIB));
    assert_eq!(machine.offer(&large), Err(Lack::Vram("rocm:0".into())));
    machine.give_back(&first);
    held(&mut machine, &large);
    assert_eq!(machine.offer(&second), Err(Lack::Vram("rocm:0".into())));
}

/// What NVML says of the recorded machine's two cards, the second of which is smaller than its like.
fn nvml(sizes: [Option<u64>; 2]) -> Backend {
    let mut answer = inventory_cheap(&Machines::recorded("nvidia"))
        .into_iter()
        .find(|b| b.name == "cuda")
        .unwrap();
    for (device, size) in answer.devices.iter_mut().zip(sizes) {
        device.memory_bytes = size;
    }
    answer
}

#[test]
fn two_claims_that_do_not_fit_a_card_together_follow_each_other_as_soon_as_its_driver_was_queried()
{
    let inventory = inventory_cheap(&Machines::recorded("nvidia"));
    let devices = Devices::new(&inventory);
    let any_of = devices.any_of("cuda", "cuda:1");
    let claim = Claim {
        device: Some(DeviceClaim {
            any_of,
            timed: false,
            vram: 30 * GIB,
        }),
        ..Claim::CORE
    };
    let mut machine = Machine::new(capacity(&devices));
    let first = machine.fitted(claim.clone());
    let first = held(&mut machine, &first);
    assert!(
        machine.offer(&machine.fitted(claim.clone())).is_ok(),
        "files do not say what the card has"
    );
    for (at, size) in devices.sizes(&nvml([Some(140 * GIB), Some(40 * GIB)])) {
        machine.capacity.units[at].vram = size.ok();
    }
    assert_eq!(
        machine.offer(&machine.fitted(claim.clone())),
        Err(Lack::Vram("cuda:1".into()))
    );
    machine.give_back(&first);
    assert!(machine.offer(&machine.fitted(claim)).is_ok());
}

#[test]
fn a_size_is_of_the_card_with_that_uuid_or_not_known() {
    let inventory = inventory_cheap(&Machines::recorded("nvidia"));
    let devices = Devices::new(&inventory);
    let at = |devices: &Devices<'_>, name: &str| devices.any_of("cuda", name)[0];
    let [first, second] = ["cuda:0", "cuda:1"].map(|name| at(&devices, name));
    let mut answer = nvml([Some(140 * GIB), Some(40 * GIB)]);
    answer.devices.reverse();
    assert_eq!(
        devices.sizes(&answer),
        [(first, Ok(140 * GIB)), (second, Ok(40 * GIB))]
    );
    answer.devices.pop();
    let unlisted = Err("its driver does not list it".to_owned());
    assert_eq!(
        devices.sizes(&answer),
        [(first, unlisted), (second, Ok(40 * GIB))]
    );
    let silent = Err("its driver does not tell it".to_owned());
    assert_eq!(
        devices.sizes(&nvml([None, Some(GIB)])),
        [(first, silent), (second, Ok(GIB))]
    );
    let broken = Err("NVML refuses".to_owned());
    let refused = Backend::unavailable("cuda", "NVML refuses");
    assert_eq!(
        devices.sizes(&refused),
        [(first, broken.clone()), (second, broken)]
    );
}

#[test]
fn a_claim_larger_than_the_card_is_reported_once() {
    let inventory = recorded();
    let devices = Devices::new(&inventory);
    let capacity = capacity(&devices);
    let mut world = World::new();
    let mut warnings = |id, claim: &Claim| {
        world
            .memory
            .warn_too_large(StepId(id), "run:a", claim, &capacity)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        warnings(1, &on(&devices, "rocm", true, 100 * GIB)),
        Vec::<String>::new()
    );
    let large = on(&devices, "rocm", true, 200 * GIB);
    let text =
        "run:a may take 200 GiB of the memory of rocm:0, which has 192 GiB: it runs there alone";
    assert_eq!(warnings(1, &large), [text]);
    assert_eq!(warnings(1, &large), Vec::<String>::new());
    let both = Claim {
        memory: 65 * GIB,
        ..large
    };
    assert_eq!(
        warnings(2, &both),
        [
            "run:a may take 65 GiB of memory, and 64 GiB are free: it runs alone",
            text
        ]
    );
}

#[test]
fn claims_are_few_and_never_less_than_what_was_taken() {
    const MIB: u64 = 1 << 20;
    assert_eq!([0, MIB, LITTLE - 1].map(rounded), [0, 0, 0]);
    let given = [64, 65, 80, 100, 113, 128, 1000, 1024, 1025];
    assert_eq!(
        given.map(|mib| rounded(mib * MIB) / MIB),
        [64, 80, 80, 112, 128, 128, 1024, 1024, 1280]
    );
    let claims: std::collections::BTreeSet<_> = (0..200_000).map(|n| rounded(n * MIB)).collect();
    assert!(claims.len() < 60, "{}", claims.len());
    assert!((0..10_000).all(|n| rounded(n * 7 * MIB) >= n * 7 * MIB || n * 7 < 64));
    assert!(rounded(u64::MAX) >= u64::MAX - 1);
}
