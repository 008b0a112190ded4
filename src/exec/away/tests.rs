//! Tests of the steps that go away, of what their workers must have, and of orders that are not taken.

use std::num::NonZeroU64;

use serde_json::json;

use super::*;
use crate::exec::away::order::Order;
use crate::key::KeyDoc;
use crate::spec::Program;
use crate::step::{COMMAND, Params, Stage, Step};

fn routing(whereabouts: Where) -> Routing {
    let properties =
        [("pool", "lab"), ("cpu", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let download = Download::default();
    Routing {
        whereabouts,
        download,
        properties: properties.into(),
        env: BTreeMap::new(),
        slots: 2,
    }
}

fn command(program: Program) -> Step {
    let program = Program {
        argv: ["true".into()].into(),
        ..program
    };
    let step = Step::new(
        "command:x",
        Stage::Command,
        &COMMAND,
        Params::Program(program.into()),
        vec![],
        7,
    );
    Step {
        memory: NonZeroU64::new((5 << 20) + 1),
        ..step
    }
}

#[test]
fn what_belongs_to_this_machine_stays() {
    let plain = command(Program::default());
    assert!(routing(Where::Remote).sends(&plain, &[]));
    assert!(!routing(Where::Local).sends(&plain, &[]));
    assert!(
        !routing(Where::Auto).sends(&plain, &[]),
        "it needs no device"
    );
    let secret = command(Program {
        env: ["TOKEN".into()].into(),
        ..Program::default()
    });
    assert!(
        !routing(Where::Remote).sends(&secret, &[]),
        "the value of a variable may be a secret"
    );
    let writes = command(Program {
        writable: [("x".into(), Path::new("/x").into())].into(),
        ..Program::default()
    });
    assert!(!routing(Where::Remote).sends(&writes, &[]));
}

#[test]
fn what_is_fetched_at_once_is_what_was_asked_for() {
    let leaves = |download| {
        [false, true].map(|is_top| {
            Routing {
                download,
                ..routing(Where::Remote)
            }
            .leaves(is_top)
        })
    };
    assert_eq!(leaves(Download::All), [false, false]);
    assert_eq!(leaves(Download::Toplevel), [true, false]);
    assert_eq!(leaves(Download::None), [true, true]);
}

#[test]
fn properties_are_orch_s_and_the_user_s() {
    let asked = routing(Where::Remote).asked(&command(Program::default()));
    assert_eq!(
        listed(&asked),
        "mem_mb=6, pool=lab",
        "an empty value takes one of orch's away"
    );
    assert_eq!(
        routing(Where::Remote).described(&command(Program::default())),
        "executor mem_mb=6, pool=lab"
    );
}

#[test]
fn a_property_may_name_the_device_and_is_asked_of_runs_alone() {
    let given = [
        ("pool", "lab"),
        ("orch-device", ""),
        ("has-{device}", "1"),
        ("Pool", "of-{device}"),
    ];
    let given = given
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(
        listed(&filled(&given, Some("qnn"))),
        "Pool=of-qnn, has-qnn=1, orch-device=, pool=lab"
    );
    assert_eq!(listed(&filled(&given, None)), "orch-device=, pool=lab");
}

#[test]
fn an_order_makes_the_same_step_and_one_of_other_code_is_refused() {
    let step = command(Program {
        transient: [75].into(),
        network: true,
        ..Program::default()
    });
    let order = || Order::of(&step, &KeyDoc::default(), BTreeMap::new(), None).to_bytes();
    let made = Order::parse(&order()).unwrap().into_step().unwrap();
    assert_eq!(
        (
            made.name.as_str(),
            made.timeout_seconds,
            made.transient_codes()
        ),
        ("command:x", 7, &[75][..])
    );
    let (Params::Program(one), Params::Program(other)) = (&step.params, &made.params) else {
        panic!()
    };
    assert_eq!(one, other);
    let with = |name: &str, value: serde_json::Value| {
        let mut changed: serde_json::Value = serde_json::from_slice(&order()).unwrap();
        changed[name] = value;
        Order::parse(changed.to_string().as_bytes())
            .and_then(Order::into_step)
            .unwrap_err()
            .to_string()
    };
    assert!(with("code", json!(crate::base::Digest::of(b"other"))).contains("by other code"));
    assert!(with("kind", json!("no-such-kind")).contains("no steps of kind"));
    assert!(with("version", json!(2)).contains("form 2"));
    assert!(with("unknown", json!(1)).contains("from another version of orch"));
}
