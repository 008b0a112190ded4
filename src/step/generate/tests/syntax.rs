//! Holds generated texts to Python's syntax, without starting a Python, and names to being names.

use ruff_python_parser::{Parsed, parse_module};

use super::*;

fn parsed(source: &str) -> Parsed<impl Sized + use<>> {
    parse_module(source).unwrap_or_else(|error| panic!("no Python: {error}:\n{source}"))
}

pub(super) fn assert_parses(source: &str) {
    parsed(source);
}

/// What of a module is neither string nor comment.
fn code(source: &str) -> String {
    let is_text = |kind: &str| kind.contains("String") || kind == "Comment";
    let module = parsed(source);
    let tokens = module.tokens().iter().map(|token| token.as_tuple());
    let tokens = tokens.filter(|(kind, _)| !is_text(&format!("{kind:?}")));
    let ranges = tokens.map(|(_, range)| &source[range.start().to_usize()..range.end().to_usize()]);
    ranges.collect::<Vec<_>>().join(" ")
}

#[test]
fn no_name_can_become_code() {
    // Seven and the number of targets have no common factor: every pipeline and every target meets some of the names.
    assert!(!targets().len().is_multiple_of(7));
    for (number, mut ctx) in contexts().into_iter().step_by(7).enumerate() {
        for (turn, name) in [
            (0, HOSTILE[number % 8]),
            (1, HOSTILE[(number + number / 8 + 1) % 8]),
        ] {
            let named = |what: &str| format!("{name}{what}");
            (ctx.orch, ctx.target, ctx.pipeline) = (named("o"), named("t"), named("p"));
            (ctx.model, ctx.variant, ctx.instance) = (named("m"), named("v"), named("i"));
            (ctx.family, ctx.artefact_variant) = (named("f"), named("a"));
            ctx.computes = (ctx.runtime.name == "openvino").then(|| named("c"));
            ctx.options = BTreeMap::from([(named("k"), json!({ named("n"): [named("w")] }))]);
            ctx.outputs = vec![named("out")];
            // Which templates are taken depends on task and inputs: some by their own names, some by hostile ones.
            let mut ctx = ctx.clone();
            if (number + turn).is_multiple_of(2) {
                ctx.task = named(&ctx.task);
                ctx.inputs
                    .insert(0, input(&named("in"), Element::Int64, &[1, 2]));
                ctx.device = named("d");
            }
            let text = render_test(&ctx)
                .unwrap_or_else(|error| panic!("{} on {}: {error:#}", ctx.task, ctx.target));
            assert!(text.contains("pwned") || name == "a\\", "{text}");
            let code = code(&text);
            assert!(
                !code.contains("pwned") && !code.contains("__import__"),
                "{code}"
            );
        }
    }
}

#[test]
fn a_class_is_one_name() {
    let mut ctx = context("fill-mask", "eager-cpu");
    ctx.class = Some("Tiny(); import os".to_owned());
    assert!(
        render_test(&ctx)
            .unwrap_err()
            .to_string()
            .contains("no transformers class")
    );
}
