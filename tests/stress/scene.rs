//! A spec of commands in three levels whose every execution is noted in a file outside the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::support::Sandbox;

/// Steps that fail, or are skipped for that reason.
const FAILING: [&str; 2] = ["fails", "after"];

pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    pub(crate) steps: BTreeSet<String>,
}

/// A line of the notes: the step, and the orch that executes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) begins: bool,
    pub(crate) step: String,
    pub(crate) orch: u32,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            sandbox: Sandbox::new(),
            steps: BTreeSet::new(),
        }
    }

    pub(crate) fn notes_path(&self) -> PathBuf {
        self.sandbox.path("seen/notes")
    }

    fn command(&self, name: &str, inputs: &[String], script: &str) -> String {
        let notes = self.notes_path();
        let notes = notes.display();
        let inputs: Vec<_> = inputs
            .iter()
            .map(|step| format!("in/{step}: {{step: 'command:{step}'}}"))
            .collect();
        let inputs = inputs.join(", ");
        let script =
            format!("echo B {name} $PPID >> {notes}; {script}; echo E {name} $PPID >> {notes}");
        format!(
            "  {name}: {{argv: [sh, -c, '{script}'], inputs: {{{inputs}}}, outputs: [out], writable: [seen]}}\n"
        )
    }

    /// Writes a spec in which everything differs from that of another salt, but for some of the content.
    pub(crate) fn write(&mut self, salt: u64, with_failures: bool) {
        let mut spec = String::from("version: 1\ncommands:\n");
        let mut steps = Vec::new();
        for n in 0..3 {
            spec.push_str(&format!(
                "  w{n}: {{write: {{a.txt: 'salt {salt} {n}', d/b.txt: same}}}}\n"
            ));
            steps.push(format!("w{n}"));
        }
        for n in 0..8 {
            let script = match n {
                // Two make the same large content, one its own.
                0 | 1 => format!(
                    ": {salt}; mkdir out; seq 1 150000 > out/same; echo {n} {salt} > out/own"
                ),
                2 => format!("seq {salt} 150000 > out"),
                3 => format!("sleep 0.1; echo {salt} > out"),
                4 => format!("printf \"#!/bin/sh\\n# {salt}\" > out; chmod +x out"),
                _ => format!("echo {n} {salt} > out"),
            };
            spec.push_str(&self.command(&format!("m{n}"), &[], &script));
            steps.push(format!("m{n}"));
        }
        for n in 0..8 {
            let inputs = [format!("m{n}"), format!("w{}", n % 3)];
            let script = "find in -type f | sort | xargs cat | cksum > out";
            spec.push_str(&self.command(&format!("r{n}"), &inputs, script));
            steps.push(format!("r{n}"));
        }
        for n in 0..4 {
            let inputs = [0, 1, 3].map(|more| format!("r{}", (n + more) % 8));
            let script = "find in -type f | sort | xargs cat > out";
            spec.push_str(&self.command(&format!("j{n}"), &inputs, script));
            steps.push(format!("j{n}"));
        }
        if with_failures {
            spec.push_str(&self.command("fails", &["m5".into()], &format!("exit 3; : {salt}")));
            spec.push_str(&self.command("after", &["fails".into()], "echo x > out"));
        }
        self.steps = steps.into_iter().collect();
        self.sandbox.write("spec.yaml", spec);
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        let text = std::fs::read_to_string(self.notes_path()).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let begins = words.next()? == "B";
            Some(Note {
                begins,
                step: words.next()?.to_owned(),
                orch: words.next()?.parse().ok()?,
            })
        };
        text.lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("a torn note: {line:?}")))
            .collect()
    }

    pub(crate) fn forget_notes(&self) {
        let _ = std::fs::remove_file(self.notes_path());
    }

    /// Names of steps that orch said to be done. A line without an end was not said.
    pub(crate) fn reported_ok(stderr: &str) -> BTreeSet<String> {
        let whole = stderr.rfind('\n').map_or("", |end| &stderr[..end]);
        let ok = whole
            .lines()
            .filter_map(|line| line.strip_prefix("ok    command:")?.split(' ').next());
        ok.map(str::to_owned).collect()
    }

    /// The tree of each step, as the store names it.
    pub(crate) fn trees(&self) -> BTreeMap<String, String> {
        let tree = |step: &String| {
            let listed = self
                .sandbox
                .run(["output", &format!("command:{step}"), "--json", "--latest"])
                .success()
                .json();
            (step.clone(), listed["tree"].to_string())
        };
        self.steps.iter().map(tree).collect()
    }
}

/// What is wrong about a sequence of executions, if `killed` are the processes that were killed: a step done twice at a
/// time, or done again although a process that lived on had done it.
pub(crate) fn complaints(notes: &[Note], killed: &BTreeSet<u32>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut active: BTreeMap<&str, u32> = BTreeMap::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for Note { begins, step, orch } in notes
        .iter()
        .filter(|note| !FAILING.contains(&note.step.as_str()))
    {
        if !begins {
            if active.get(step.as_str()) == Some(orch) {
                active.remove(step.as_str());
            }
            if !killed.contains(orch) {
                done.insert(step);
            }
            continue;
        }
        if done.contains(step.as_str()) {
            complaints.push(format!("{step} was done and is done again by {orch}"));
        }
        if let Some(other) = active
            .insert(step, *orch)
            .filter(|other| !killed.contains(other))
        {
            complaints.push(format!("{step} is done by {other} and by {orch} at a time"));
        }
    }
    complaints
}

#[test]
fn doing_twice_is_complained_about() {
    let note = |begins, orch| Note {
        begins,
        step: "m1".into(),
        orch,
    };
    let killed = BTreeSet::from([2]);
    let cases: [(&[(bool, u32)], usize); 5] = [
        (&[(true, 1), (false, 1)], 0),
        (&[(true, 2), (true, 1), (false, 1)], 0),
        (&[(true, 2), (false, 2), (true, 1), (false, 1)], 0),
        (&[(true, 1), (true, 3)], 1),
        (&[(true, 1), (false, 1), (true, 3)], 1),
    ];
    for (notes, wrong) in cases {
        let notes: Vec<_> = notes
            .iter()
            .map(|(begins, orch)| note(*begins, *orch))
            .collect();
        assert_eq!(complaints(&notes, &killed).len(), wrong, "{notes:?}");
    }
}
