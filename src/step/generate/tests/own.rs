//! What only some pipelines and models ask for.

use super::*;

#[test]
fn a_state_is_requested_wherever_the_file_infers_and_stepped_through_where_it_has_the_model() {
    for ctx in contexts()
        .iter()
        .filter(|ctx| ctx.pipeline == "state-space" && ctx.task == "text-generation")
    {
        let text = render_test(ctx).unwrap();
        let infers = text.contains("\ndef infer(");
        assert_eq!(
            text.contains("told, held_more = infer_more("),
            infers,
            "{}",
            ctx.target
        );
        assert_eq!(
            text.contains("def step_by_step("),
            ctx.artefact.name == "model",
            "{}",
            ctx.target
        );
    }
    assert!(
        !render_test(&context("fill-mask", "cpu"))
            .unwrap()
            .contains("infer_more")
    );
}

#[test]
fn experts_are_as_many_for_a_token_as_the_config_says() {
    let ctx = contexts()
        .into_iter()
        .find(|ctx| ctx.pipeline == "mixture-of-experts")
        .unwrap();
    let text = render_test(&ctx).unwrap();
    assert!(
        text.contains("EXPERTS_PER_TOKEN = 2\n") && text.contains("def task_check("),
        "{text}"
    );
    let unknown = render_test(&TestContext {
        experts_per_token: None,
        ..ctx
    })
    .unwrap();
    assert!(
        unknown.contains("EXPERTS_PER_TOKEN = 1\n") && unknown.contains("the first choice is told")
    );
}

/// No second preprocessing stands beside the model's own, and a seeded model's test holds nothing of it.
#[test]
fn what_comes_with_weights_is_used_where_there_are_some() {
    let folder = std::env::var_os("ORCH_GENERATED").map(PathBuf::from);
    let targets = ["cpu", "eager-cpu", "webnn", "tasks", "qnn-android"];
    let has_results = |ctx: &TestContext| ctx.template != "diffusion" && ctx.components.is_empty();
    let all = contexts()
        .into_iter()
        .filter(|ctx| targets.contains(&&*ctx.target) && has_results(ctx));
    for (number, ctx) in all.enumerate() {
        assert!(
            !render_test(&ctx).unwrap().contains("given_inputs"),
            "{} on {}",
            ctx.task,
            ctx.target
        );
        let ctx = TestContext {
            own_weights: true,
            ..ctx
        };
        let text = render_test(&ctx).unwrap();
        let reads_weights = !["android", "transformers-js"].contains(&ctx.runtime.name);
        for part in [
            "def given_inputs(",
            "def in_words(",
            "def lines_of(",
            "in_words(as_numbers(feeds)",
            "nargs=",
        ] {
            let count =
                usize::from(reads_weights || (part == "nargs=" && ctx.runtime.name == "android"));
            assert_eq!(
                text.matches(part).count(),
                count,
                "{part}: {} on {}",
                ctx.task,
                ctx.target
            );
        }
        assert!(
            !text.contains("127.5") && !text.contains("value.std("),
            "{} on {}",
            ctx.task,
            ctx.target
        );
        if let Some(folder) = &folder {
            std::fs::write(
                folder.join(format!("own_{number}_{}", ctx.file_name())),
                text,
            )
            .unwrap();
        }
    }
    let tensors = TestContext {
        own_weights: true,
        template: "tensors".to_owned(),
        ..context("fill-mask", "cpu")
    };
    assert!(!render_test(&tensors).unwrap().contains("in_words"));
}

#[test]
fn text_is_generated_wherever_the_file_infers_and_the_model_requests_it() {
    let loop_and_verdict = [
        "def greedy(",
        "def generation_verdict(",
        "decoded = generated(args, loaded, manifest,",
    ];
    for ctx in contexts()
        .into_iter()
        .filter(|ctx| ctx.pipeline == "text" && ctx.task == "text-generation")
    {
        let text = render_test(&ctx).unwrap();
        let infers = text.contains("\ndef infer(");
        for part in loop_and_verdict {
            assert_eq!(
                text.matches(part).count(),
                usize::from(infers),
                "{part} on {}",
                ctx.target
            );
        }
        let is_whole = ["torchscript", "tflite"].contains(&ctx.artefact.name);
        let caches = infers && !is_whole && ctx.runtime.name != "tract";
        for part in [
            "def open_decoder(",
            "def decoding_times(",
            "fresh = open_decoder(",
        ] {
            assert_eq!(
                text.matches(part).count(),
                usize::from(caches),
                "{part} on {}",
                ctx.target
            );
        }
        let silent = render_test(&TestContext {
            generates: false,
            ..ctx
        })
        .unwrap();
        assert!(!silent.contains("generation_verdict") && !silent.contains("Callable"));
    }
}
