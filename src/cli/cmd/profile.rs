//! `orch profile`: where the time of a case goes, by its runtime's own counters.

use std::path::PathBuf;

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::args::SPEC;
use crate::cli::cmd::run::{command_line, on_interrupt};
use crate::cli::console::Console;
use crate::cli::printer::WARN;
use crate::cli::table::table;
use crate::cli::{Args, Exit, Printer};
use crate::runtime::profile::Profile;
use crate::session::{Profiled, Request, Session, Settings};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ProfileArgs {
    /// The case, such as `bert:cpu-fp32`, or a glob that matches exactly one
    #[arg(value_name = "CASE")]
    case: String,
    /// The spec
    #[arg(default_value = SPEC)]
    spec: PathBuf,
    /// How many inferences to profile
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// How many operators to list; `--json` lists all
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn profile(
    args: &Args,
    request: &ProfileArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    on_interrupt(&session.cancel, || {})?;
    let console = Console::new(printer.verbosity());
    let tell = |text: &str| printer.note(text);
    let settings = Settings {
        command: command_line(),
        ..Settings::default()
    };
    let found = session.profile(
        &Request::all(&request.spec),
        &request.case,
        request.samples,
        &settings,
        (&console, &tell),
    );
    let Profiled {
        case,
        profile,
        stand_in,
    } = found?;
    let document = || json!({"case": case, "profile": profile, "stand_in": stand_in});
    printer.answer(request.json, document, || {
        text(&case, &profile, stand_in, request.top)
    });
    Ok(Exit::Success)
}

/// The page: device, type of model, and operators, the slowest first.
fn text(case: &str, profile: &Profile, stand_in: Option<&str>, top: usize) -> String {
    let counted_ms: f64 = profile.operators.iter().map(|operator| operator.ms).sum();
    let share = |ms: f64| {
        Some(format!(
            "{:.1} %",
            if counted_ms > 0.0 {
                100.0 * ms / counted_ms
            } else {
                0.0
            }
        ))
    };
    let ms = |ms: f64| Some(format!("{ms:.4}"));
    let label = stand_in.map(|word| {
        format!("{WARN}{word}: no hardware ran it, so its times say how the {word} device works, and nothing of hardware{WARN:#}\n")
    });
    let head = format!(
        "{case}: {} of {} by {}\n{counted_ms:.4} ms in operators, {:.4} ms in all while they are counted; a run's latency is less\n",
        counted(profile.operators.len(), "operator"),
        counted(profile.inferences as usize, "inference"),
        profile.by,
        profile.wall_ms,
    );
    let sums = |title: &str, sums: Vec<(&str, f64, usize)>| {
        let row = |(word, time, count): &(&str, f64, usize)| {
            vec![
                Some((*word).to_owned()),
                Some(count.to_string()),
                ms(*time),
                share(*time),
            ]
        };
        table(
            &[title, "operators", "ms", "share"],
            &sums.iter().take(top).map(row).collect::<Vec<_>>(),
        )
    };
    let slowest = profile.operators.iter().take(top).map(|operator| {
        let texts =
            [&operator.name, &operator.kind, &operator.place].map(|text| Some(text.clone()));
        texts
            .into_iter()
            .chain([ms(operator.ms), share(operator.ms)])
            .collect()
    });
    let slowest = table(
        &["operator", "type", "place", "ms", "share"],
        &slowest.collect::<Vec<_>>(),
    );
    let more = profile.operators.len().saturating_sub(top);
    let more = if more > 0 {
        format!("and {more} more (--top, --json)\n")
    } else {
        String::new()
    };
    let places = sums("place", profile.by(|operator| &operator.place));
    let kinds = sums("type", profile.by(|operator| &operator.kind));
    [label.unwrap_or_default() + &head, places, kinds, slowest].join("\n") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_stand_in_are_marked_before_any_of_them() {
        let profile = Profile {
            by: "x".into(),
            inferences: 1,
            wall_ms: 343.0,
            operators: Vec::new(),
        };
        let page = |stand_in| {
            anstream::adapter::strip_str(&text("bert:qnn-fp16", &profile, stand_in, 9)).to_string()
        };
        assert!(
            page(Some("emulated")).starts_with("emulated: no hardware ran it"),
            "{}",
            page(Some("emulated"))
        );
        assert!(page(None).starts_with("bert:qnn-fp16: "));
    }
}
