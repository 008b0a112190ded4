//! Columns by toolchains: which steps they have of their own, and what reaches them.

use std::collections::BTreeSet;

use orch::key::MissReason;

use crate::harness::{Outputs, Reran, World};
use crate::table::shown;

fn lock(version: &str) -> String {
    format!("onnxruntime=={version} \\\n    --hash=sha256:{version}\n")
}

fn with_toolchain(more: &str) -> World {
    let world = World::new();
    world.write("specs/ort.txt", &lock("1.24.4"));
    let row = format!("toolchains: {{old: {{locks: {{ort: ort.txt}}{more}}}}}\nmeasure:");
    world.edit("measure:", &row);
    world.edit(
        "artefact: onnx, precisions: [fp32]}",
        "artefact: onnx, precisions: [fp32], toolchains: [default, old]}",
    );
    world
}

fn names(reran: &Reran) -> BTreeSet<&str> {
    reran.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_new_toolchain_adds_steps_and_reruns_none() {
    let world = with_toolchain("");
    let reran = world.settle(Outputs::Equal);
    for (name, why) in &reran {
        assert!(name.contains("@old"), "{name}: {why}");
        assert_eq!(*why, MissReason::NeverRan, "{name}");
    }
    let names = names(&reran);
    for name in [
        "run:bert:cpu@old-fp32",
        "judge:bert:cpu@old-fp32",
        "generate:bert:cpu@old-fp32",
        // The rule that adds `plain` to `cpu` is one for all columns of that row.
        "run:plain:cpu@old-fp32",
        "convert:affine:onnx-fp16@old",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(
        !names.contains("convert:bert:onnx@old"),
        "PyTorch exports it"
    );
}

#[test]
fn what_its_lock_says_is_in_the_keys_of_its_columns_alone() {
    let world = with_toolchain("");
    world.settle(Outputs::Equal);
    world.write("specs/ort.txt", &lock("1.24.3"));
    let reran = world.settle(Outputs::Equal);
    assert!(!reran.is_empty());
    for (name, why) in &reran {
        assert!(name.contains("@old"), "{name}");
        let expected = "tool.onnxruntime 1.24.4 => 1.24.3".to_owned();
        assert_eq!(shown(why), [expected].into(), "{name}");
    }
}

#[test]
fn an_artefact_of_the_newest_converter_is_shared() {
    let world = with_toolchain(", convert: newest");
    let reran = world.settle(Outputs::Equal);
    let converted = |name: &&str| name.starts_with("convert:");
    assert_eq!(names(&reran).into_iter().find(converted), None);
}
