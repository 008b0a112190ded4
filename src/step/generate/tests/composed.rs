//! Tests of models of several.

use super::*;

/// The pipelines of several models.
pub(super) fn pipelines() -> Vec<(&'static str, &'static str, Vec<InputSummary>)> {
    let sample = || vec![input("sample", Element::Float32, &[1, 4, 8, 8])];
    let tasks = [
        "text-to-image",
        "class-to-image",
        "unconditional-image-generation",
        "noise-prediction",
    ];
    let rag = (
        "rag",
        "retrieval-augmented-generation",
        vec![input("input_ids", Element::Int64, &[1, 16])],
    );
    [rag]
        .into_iter()
        .chain(tasks.map(|task| ("diffusion", task, sample())))
        .collect()
}

/// The components of the tasks that take several.
pub(super) fn components(task: &str) -> Vec<ComponentSummary> {
    let parts: &[_] = match task {
        "retrieval-augmented-generation" => &[("question", "DPRQuestionEncoder", "transformers")],
        "text-to-image" => &[
            ("text_encoder", "CLIPTextModel", "transformers"),
            ("vae", "AutoencoderKL", "diffusers"),
        ],
        "unconditional-image-generation" => &[("unet", "UNet2DModel", "diffusers")],
        _ => &[],
    };
    let owned = |&(part, class, library): &(&str, &str, &str)| {
        let [part, class, library] = [part, class, library].map(str::to_owned);
        ComponentSummary {
            part,
            class,
            library,
        }
    };
    parts.iter().map(owned).collect()
}

#[test]
fn every_component_is_loaded_and_the_loop_is_run_where_the_runtime_can() {
    let all = contexts();
    for ctx in all.iter().filter(|ctx| !ctx.components.is_empty()) {
        assert!(ctx.runtime.composes, "{} on {}", ctx.task, ctx.target);
        let text = render_test(ctx).unwrap();
        for part in &ctx.components {
            assert!(
                text.contains(&format!("\"{}\"", part.part)),
                "{} on {}",
                part.part,
                ctx.target
            );
            let loads = format!("{}.{}", part.library, part.class);
            assert_eq!(
                text.contains(&loads),
                ctx.artefact.needs_class,
                "{loads} on {}",
                ctx.target
            );
        }
        for part in [
            "def run_loop(",
            "def run_parts(",
            "measure(loaded, feeds,",
            "placement_of_parts(loaded)",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{part} on {}", ctx.target);
        }
    }
    let one = render_test(&context("fill-mask", "cpu")).unwrap();
    assert!(!one.contains("run_loop") && !one.contains("Parts"));
}
