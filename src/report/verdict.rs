//! What a verdict rests on, in words: the tolerance required and how well it was met, and what wrong outputs would have failed.

use super::format::{cosine, error, tokens};
use crate::judge::{Generation, OtherToken, Slices};
use crate::record::Numerics;
use crate::runtime::generation::Decoded;
use crate::spec::Tolerance;

/// One line each: required, met, the control, the dropped layer.
pub(super) fn lines(numerics: &Numerics) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if numerics.tolerance.is_some() {
        let looser = match numerics.looser.as_slice() {
            [] => String::new(),
            looser => format!(" (looser than usual: {})", looser.join(", ")),
        };
        lines.push(("asked", tolerance(numerics) + &looser));
    }
    let snr = numerics
        .snr_db
        .map(|snr| format!(", SNR {snr:.0} dB"))
        .unwrap_or_default();
    let of_bound = bound(numerics.worst);
    let tokens = numerics
        .tokens
        .map(|share| format!(", {} of the tokens equal", tokens(share)))
        .unwrap_or_default();
    lines.push((
        "met",
        format!(
            "the farthest value at {of_bound}, cosine {}{snr}{tokens}",
            cosine(numerics.cosine)
        ),
    ));
    match (&numerics.control, &numerics.no_control) {
        (Some(control), _) => {
            let off = error(control.differs_by);
            let ratio = bound(control.worst);
            let shared = in_common(control.tokens);
            let rows: Vec<_> = control.idle_rows.iter().map(usize::to_string).collect();
            let names = |of: &str, names: &[String]| {
                (!names.is_empty()).then(|| format!("{of} {}", names.join(", ")))
            };
            let parts = [
                Some(format!("another input differs by {off}, {ratio}{shared}")),
                control
                    .max_abs
                    .map(|off| format!("the run is off by {} there", error(off))),
                control
                    .by
                    .as_ref()
                    .map(|by| format!("its outputs are those of {by}")),
                names("it has the given values of", &control.kept),
                names("it would pass for", &control.undecided),
                names("no output depends on", &control.idle),
                names("no output depends on these rows of the inputs:", &rows),
            ];
            lines.push((
                "control",
                parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
            ));
        }
        (None, Some(why)) => lines.push(("no control", why.clone())),
        (None, None) => {}
    }
    if let Some(dropped) = &numerics.dropped {
        let layer = &dropped.layer;
        let off = error(dropped.differs_by);
        let shared = in_common(dropped.tokens);
        lines.push((
            "layer",
            format!(
                "without `{layer}` it differs by {off}, {}{shared}",
                bound(dropped.worst)
            ),
        ));
    }
    if let Some(generation) = &numerics.generation {
        lines.push(("generated", generated(generation)));
    }
    let small: Vec<_> = numerics
        .slices
        .iter()
        .flat_map(|(name, axes)| axes.iter().map(|one| small(name, one)))
        .collect();
    if !small.is_empty() {
        lines.push((
            "small",
            format!("judged by their own magnitude: {}", small.join(", ")),
        ));
    }
    lines
}

fn generated(generation: &Generation) -> String {
    let count = generation.asked;
    let Some(agreed) = generation.agreed else {
        return format!("nothing: this runtime does not generate, and {count} tokens are known");
    };
    let first = generation.first.as_ref().map(|first| {
        let OtherToken { row, step, token, expected, margin, bound, tie } = first;
        let what = if *tie { "a tie" } else { "wrong" }; let margin = error(*margin); let bound = error(*bound);
        format!("; then {what}: token {step} of row {row} is {token}, not {expected}, with a margin of {margin} against {bound}")
    });
    let decoded = match &generation.decoded {
        Some(Decoded { cached: true, .. }) => "; decoded with a cache".to_owned(),
        Some(Decoded { why: Some(why), .. }) => format!("; decoded without a cache: {why}"),
        _ => String::new(),
    };
    let first = first.unwrap_or_default();
    format!("{agreed} of {count} tokens are those of PyTorch's greedy decoding{first}{decoded}")
}

/// `3 of the 128 indices of axis 2 of `logits``, and how many of them are wrong or prove nothing.
fn small(name: &str, slices: &Slices) -> String {
    let Slices {
        axis,
        of,
        own,
        wrong,
        undecided,
        ..
    } = slices;
    let counted = [(wrong.len(), "wrong"), (undecided.len(), "undecided")];
    let counted: Vec<_> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    let counted = if counted.is_empty() {
        String::new()
    } else {
        format!(" ({})", counted.join(", "))
    };
    format!("{own} of the {of} indices of axis {axis} of `{name}`{counted}")
}

fn in_common(share: Option<f64>) -> String {
    share
        .map(|share| format!(", with {} of the tokens equal", tokens(share)))
        .unwrap_or_default()
}

/// `atol 1e-3, rtol 1e-3, budget 0, cosine 0.9999, snr 50`, and `tokens 1` where an output has them.
pub(super) fn tolerance(numerics: &Numerics) -> String {
    let Some(Tolerance {
        atol,
        rtol,
        budget,
        cosine,
        snr,
        tokens,
    }) = &numerics.tolerance
    else {
        return String::new();
    };
    let tokens = if numerics.tokens.is_some() {
        format!(", tokens {tokens}")
    } else {
        String::new()
    };
    let atol = short(*atol);
    let rtol = short(*rtol);
    let budget = short(*budget);
    format!("atol {atol}, rtol {rtol}, budget {budget}, cosine {cosine}, snr {snr}{tokens}")
}

fn short(value: f64) -> String {
    if value == 0.0 || value >= 0.01 {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// A ratio to its bound, with as many digits as mean something.
pub(super) fn bound(ratio: f64) -> String {
    match ratio {
        0.0 => "0 of its bound".to_owned(),
        ratio if ratio < 0.01 => "less than 0.01 of its bound".to_owned(),
        ratio if ratio < 10.0 => format!("{ratio:.2} of its bound"),
        ratio if ratio < 1e6 => format!("{ratio:.0} times its bound"),
        _ => "more than a million times its bound".to_owned(),
    }
}
