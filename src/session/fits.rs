//! Whether a plan fits this machine: looked at before its first step begins.

use crate::base::fs;
use crate::event::Event;
use crate::explain::{self, Forecast, Total};
use crate::session::{Planned, Session, Settings, away, sharing, usage};

/// The part of a guess by the size of weights that a step holds for certain. Guesses are made so that two steps do not fill
/// the machine: a conversion of 7 GiB of weights held a third of its guess.
const CERTAIN: u64 = 4;

/// What a step takes at least that is not there already.
fn certain(forecast: Forecast) -> Forecast {
    if forecast.is_on_record {
        // What a step made before may be made again as it was, which takes no room.
        return Forecast {
            disk_bytes: None,
            ..forecast
        };
    }
    Forecast {
        memory_bytes: forecast.memory_bytes.map(|guess| guess / CERTAIN),
        ..forecast
    }
}

impl Session {
    /// Returns an error of the user's making if a step is certain to hold more memory than this machine has, or the steps
    /// that never ran to write more than is free where the store is.
    ///
    /// Nothing is required where steps execute elsewhere or outputs come from elsewhere: a step that would run here by
    /// what is here may never begin.
    pub fn require_that_it_fits(
        &self,
        planned: &Planned,
        settings: &Settings,
    ) -> anyhow::Result<()> {
        let shares = !settings.no_remote && sharing::configured()?.is_some();
        if settings.oversized || shares || away::configured(settings)?.is_some() {
            return Ok(());
        }
        let options = self.options(planned, settings);
        let unheard = |_: Event| {};
        let context = self.context(&planned.project, &options, &unheard);
        let previews = context.previews()?;
        let forecasts: Vec<_> = explain::forecasts(&context, &previews)
            .into_iter()
            .map(|forecast| forecast.map(certain))
            .collect();
        let total = Total::of(&planned.project.plan, &forecasts);
        let space = fs::free_bytes(self.store.root());
        let too_much = total.too_much(self.host.report.memory_bytes, space);
        if too_much.is_empty() {
            return Ok(());
        }
        let reasons = too_much.join("\n  ");
        usage!(
            "this run does not fit this machine, and nothing of it was begun\n  {reasons}\n  \
             hint: `orch plan` has the figures of each step; --oversized begins nevertheless"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_refuses_only_what_is_certain_and_a_record_refuses_as_it_is() {
        let guess = Forecast {
            memory_bytes: Some(28 << 30),
            disk_bytes: Some(7 << 30),
            ..Forecast::default()
        };
        let least = certain(guess);
        assert_eq!(least.memory_bytes, Some(7 << 30));
        assert_eq!(least.disk_bytes, guess.disk_bytes);
        let record = Forecast {
            is_on_record: true,
            ..guess
        };
        assert_eq!(certain(record).memory_bytes, guess.memory_bytes);
        assert_eq!(certain(record).disk_bytes, None);
    }
}
