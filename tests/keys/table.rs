//! Tables of inputs: what is changed, which steps read it, and what orch must say of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use orch::key::{Change, MissReason};
use orch::plan::Plan;
use orch::step::Source;

use crate::harness::{Outputs, World};

/// A reason as the tables write it: `param.seed 7 => 8, input.inputs`. Long values and digests are left out, after it
/// has been seen that orch names them, old and new.
pub(crate) fn shown(reason: &MissReason) -> BTreeSet<String> {
    let MissReason::Changed { changes } = reason else {
        return [reason.to_string()].into();
    };
    let said = reason.to_string();
    for change in changes.iter().take(3) {
        assert!(
            said.contains(&change.to_string()),
            "{said} does not say {change}"
        );
        assert_ne!(change.old, change.new, "{said}");
    }
    changes.iter().map(line).collect()
}

fn line(change: &Change) -> String {
    let Change { name, old, new } = change;
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
    // Of a package the version is told; the digest of its wheels is not the same in two releases.
    let version =
        |value: &Option<String>| self::version(&value.clone().unwrap_or_default()).to_owned();
    let is_long = |value: &Option<String>| value.as_ref().is_some_and(|value| value.len() > 40);
    match name {
        name if name.starts_with("tool.") => format!("{name} {} => {}", version(old), version(new)),
        name if name == "code" || is_long(old) || is_long(new) => name.clone(),
        name => format!("{name} {} => {}", value(old), value(new)),
    }
}

fn version(identity: &str) -> &str {
    identity
        .split_once('+')
        .map_or(identity, |(version, _)| version)
}

/// What the tables expect, by step; pages that are written stand as `report`.
pub(crate) type Expected = BTreeMap<String, BTreeSet<String>>;

/// What runs in a world, and whether its pages are written then.
pub(crate) fn settled(world: &World, outputs: Outputs) -> Expected {
    let mut found: Expected = world
        .settle(outputs)
        .into_iter()
        .map(|(step, why)| (step, shown(&why)))
        .collect();
    let rewritten: BTreeSet<_> = world.rewritten().into_iter().map(str::to_owned).collect();
    if !rewritten.is_empty() {
        found.insert("report".into(), rewritten);
    }
    found
}

/// One input of the project.
pub(crate) struct Row {
    what: &'static str,
    change: Box<dyn Fn(&mut World) + Sync>,
    reads: Expected,
}

/// `reads`: the steps, with `|` between them, and the lines of their keys, with `, ` between them.
pub(crate) fn row(
    what: &'static str,
    change: impl Fn(&mut World) + Sync + 'static,
    reads: &[(&str, &str)],
) -> Row {
    let mut expected = Expected::new();
    for (steps, lines) in reads {
        for step in steps.split('|').map(str::trim) {
            let lines = lines.split(", ").map(str::to_owned).collect();
            assert!(
                expected.insert(step.to_owned(), lines).is_none(),
                "{what}: {step} twice"
            );
        }
    }
    Row {
        what,
        change: Box::new(change),
        reads: expected,
    }
}

/// Tries every row, some at a time.
pub(crate) fn assert_all<const N: usize>(rows: [Row; N]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    row.assert();
                }
            });
        }
    });
}

impl Row {
    /// Sees that exactly the steps that read the input run when all outputs come out equal, and exactly these with all
    /// that depends on them when they do not; each with exactly the lines of its key that changed, the latter also with
    /// the inputs that did. The report is made of cases, so it must be written when one was measured.
    fn assert(&self) {
        for outputs in [Outputs::Equal, Outputs::Changed] {
            let mut world = World::new();
            (self.change)(&mut world);
            let what = format!("{}, outputs {outputs:?}", self.what);
            let found = settled(&world, outputs);
            let mut expected = self.reads.clone();
            if outputs == Outputs::Changed {
                add_descendants(&world.plan(), &mut expected);
            }
            if expected.keys().any(|step| step.starts_with("run:")) {
                expected
                    .entry("report".into())
                    .or_default()
                    .insert("what it shows".into());
            }
            pretty_assertions::assert_eq!(found, expected, "{what}");
        }
    }
}

/// Every step that reads the output of one that runs, with the names under which it reads them.
fn add_descendants(plan: &Plan, expected: &mut Expected) {
    for id in plan.ids() {
        let step = plan.step(id);
        for (label, source) in &step.inputs {
            let Source::Step(from) = source else { continue };
            if expected.contains_key(&plan.step(*from).name) {
                let lines = expected.entry(step.name.clone()).or_default();
                if !lines.contains("never ran") {
                    lines.insert(format!("input.{label}"));
                }
            }
        }
    }
}
