//! A reason, and what it comes from, step by step upwards.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use crate::base::Digest;
use crate::base::figures::counted;
use crate::exec::{Context, Preview};
use crate::explain::{Cause, Evidence, held};
use crate::key::{Change, KeyDoc, MissReason};
use crate::record::Record;
use crate::step::{Source, StepId};

/// How many of the steps that one step waits for are listed; the rest are counted.
const NAMED: usize = 5;
/// Links of a chain that are shown one by one. Of longer ones the beginning is shown, and how many steps lie between: a
/// chain of a hundred thousand steps says no more than that, and would not fit the stack.
const DEEP: usize = 6;

pub(super) struct Chain<'a> {
    context: &'a Context<'a>,
    previews: &'a [Preview],
    /// Steps whose causes were already listed: in a wide graph many chains meet.
    listed: RefCell<HashSet<StepId>>,
    depth: Cell<usize>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(context: &'a Context<'a>, previews: &'a [Preview]) -> Self {
        Self {
            context,
            previews,
            listed: RefCell::default(),
            depth: Cell::new(0),
        }
    }

    /// Causes of `reason`, which is why `id` runs or ran with `key`.
    pub(super) fn of(&self, id: StepId, reason: &MissReason, key: Option<&KeyDoc>) -> Vec<Cause> {
        if !self.listed.borrow_mut().insert(id) {
            return vec![Cause {
                repeated: true,
                ..self.leaf(id, reason.to_string())
            }];
        }
        self.depth.set(self.depth.get() + 1);
        let causes = self.links(id, reason, key);
        self.depth.set(self.depth.get() - 1);
        causes
    }

    fn links(&self, id: StepId, reason: &MissReason, key: Option<&KeyDoc>) -> Vec<Cause> {
        match reason {
            MissReason::Changed { changes } => {
                let last = self.last_before(id, key);
                changes
                    .iter()
                    .map(|change| self.changed(id, change, last.as_ref()))
                    .collect()
            }
            MissReason::After { step } if self.depth.get() > DEEP => self.begins(id, step),
            MissReason::After { .. } => self.waits(id),
            other => vec![self.leaf(id, other.to_string())],
        }
    }

    /// A step that is not executed because of another one.
    pub(super) fn blamed(&self, id: StepId, at: StepId) -> Vec<Cause> {
        let Preview::Skipped {
            outcome, reason, ..
        } = &self.previews[at.0 as usize]
        else {
            return Vec::new();
        };
        let text = format!("{}: {reason}", outcome.label());
        let text = if at == id {
            text
        } else {
            format!("{} {text}", self.name(at))
        };
        vec![Cause {
            step: self.name(at),
            ..self.leaf(id, text)
        }]
    }

    fn changed(&self, id: StepId, change: &Change, last: Option<&Record>) -> Cause {
        let leaf = Cause {
            change: Some(change.clone()),
            ..self.leaf(id, change.to_string())
        };
        let Some(input) = change.name.strip_prefix("input.") else {
            return leaf;
        };
        let step = self.context.plan.step(id);
        let store = self.context.store;
        match step.inputs.iter().find(|(name, _)| **name == *input) {
            Some((_, Source::File(path))) => Cause {
                evidence: Some(Evidence::file(store, path, change.old.as_deref(), last)),
                ..leaf
            },
            Some((_, Source::Step(from))) => {
                let old = change.old.as_deref();
                let new = change.new.as_deref();
                let evidence = Evidence::tree(store, &self.name(*from), old, new);
                Cause {
                    evidence: Some(evidence),
                    because: self.other_output(*from, old, new),
                    ..leaf
                }
            }
            // The input was another one then, or is none now: the spec changed, and that is the root.
            None => leaf,
        }
    }

    /// Why a step that is up to date was executed last.
    pub(super) fn last_run(&self, id: StepId) -> Vec<Cause> {
        match &self.previews[id.0 as usize] {
            // Two steps that would do the same have one key, and one record: it says why the other ran.
            Preview::Hit { record } if record.step != self.name(id) => {
                vec![self.leaf(
                    id,
                    format!(
                        "never ran itself: {} had done the same (the key is one)",
                        record.step
                    ),
                )]
            }
            Preview::Hit { record } => match &record.why {
                Some(why) => self.of(id, why, Some(&record.key)),
                None => Vec::new(),
            },
            Preview::Skipped {
                outcome, reason, ..
            } => vec![self.leaf(id, format!("{}: {reason}", outcome.label()))],
            _ => Vec::new(),
        }
    }

    /// Why a step made `new` where it had made `old`.
    fn other_output(&self, id: StepId, old: Option<&str>, new: Option<&str>) -> Vec<Cause> {
        if self.depth.get() > DEEP {
            let text = format!(
                "made another output; `orch explain {}` goes on from here",
                self.name(id)
            );
            return vec![self.leaf(id, text)];
        }
        let maker = |tree: Option<&str>| {
            let tree: Digest = tree?.parse().ok()?;
            self.history(id)
                .into_iter()
                .find(|record| record.output == Some(tree))
        };
        let made = maker(new).or_else(|| match &self.previews[id.0 as usize] {
            Preview::Hit { record } => Some((**record).clone()),
            _ => None,
        });
        let Some(made) = made else {
            return vec![self.leaf(
                id,
                "the record of its execution is no longer in the store".into(),
            )];
        };
        let before = maker(old);
        let changes = before
            .as_ref()
            .map(|before| made.key.changes_since(&before.key));
        match (changes, &made.why) {
            (Some(changes), _) if changes.is_empty() => {
                let then = before.map(|before| before.started).unwrap_or_default();
                let now = &made.started;
                let text = format!(
                    "made something else with the same key ({then}, then {now}): it is not deterministic"
                );
                vec![self.leaf(id, text)]
            }
            (Some(changes), _) => self.of(id, &MissReason::Changed { changes }, Some(&made.key)),
            (None, Some(why)) => self.of(id, why, Some(&made.key)),
            (None, None) => vec![self.leaf(
                id,
                format!("executed {}; why was not recorded then", made.started),
            )],
        }
    }

    /// What a step waits for, and what has changed of its own besides.
    fn waits(&self, id: StepId) -> Vec<Cause> {
        let runs = |dep: &StepId| matches!(self.previews[dep.0 as usize], Preview::WouldRun { .. });
        let mut seen = HashSet::new();
        let above: Vec<_> = self
            .context
            .plan
            .dependencies(id)
            .filter(runs)
            .filter(|dep| seen.insert(*dep))
            .collect();
        let more = above.len().saturating_sub(NAMED);
        let after = |dep: StepId| {
            let because = match &self.previews[dep.0 as usize] {
                Preview::WouldRun { key, reason } => self.of(dep, reason, key.as_ref()),
                _ => Vec::new(),
            };
            Cause {
                because,
                ..self.leaf(id, format!("after {}", self.name(dep)))
            }
        };
        let mut causes: Vec<_> = above.into_iter().take(NAMED).map(after).collect();
        if let Some(last) = causes.last_mut() {
            last.more = more;
        }
        causes.extend(self.own_changes(id));
        causes
    }

    /// The far end of a long chain of waiting.
    fn begins(&self, id: StepId, first: &str) -> Vec<Cause> {
        let mut between = 0;
        let mut at = self.context.plan.find(first);
        while let Some(above) = at {
            let Preview::WouldRun { key, reason } = &self.previews[above.0 as usize] else {
                break;
            };
            if let MissReason::After { step } = reason {
                between += 1;
                at = self.context.plan.find(step);
                continue;
            }
            let because = self.of(above, reason, key.as_ref());
            let text = format!(
                "after {}, with {} between",
                self.name(above),
                counted(between, "step")
            );
            return vec![Cause {
                because,
                ..self.leaf(id, text)
            }];
        }
        Vec::new()
    }

    /// Changes in what the spec and orch's code say of a step whose inputs, and so whose key, are not known yet.
    fn own_changes(&self, id: StepId) -> Vec<Cause> {
        let step = self.context.plan.step(id);
        let Some(last) = self.history(id).into_iter().next() else {
            return Vec::new();
        };
        let mut now = KeyDoc::default();
        now.set("kind", step.kind.name());
        now.set("code", step.kind.code(step).digest().short());
        step.params.describe(&mut now);
        let mut then = KeyDoc::default();
        let is_own =
            |name: &str| matches!(name, "kind" | "code" | "param") || name.starts_with("param.");
        for (name, value) in last.key.lines().filter(|(name, _)| is_own(name)) {
            then.set(name, value);
        }
        let leaf = |change: Change| Cause {
            change: Some(change.clone()),
            ..self.leaf(id, change.to_string())
        };
        now.changes_since(&then).into_iter().map(leaf).collect()
    }

    /// The execution before the one with this key: whose record the changes were taken from.
    fn last_before(&self, id: StepId, key: Option<&KeyDoc>) -> Option<Record> {
        self.history(id)
            .into_iter()
            .find(|record| Some(&record.key) != key)
    }

    fn history(&self, id: StepId) -> Vec<Record> {
        held::history(self.context.store, &self.name(id))
    }

    fn name(&self, id: StepId) -> String {
        self.context.plan.step(id).name.clone()
    }

    fn leaf(&self, id: StepId, text: String) -> Cause {
        Cause {
            step: self.name(id),
            text,
            change: None,
            evidence: None,
            because: Vec::new(),
            repeated: false,
            more: 0,
        }
    }
}
