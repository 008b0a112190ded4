//! What `qnn-profile-viewer` makes of a profile: how long each inference took, and whether the accelerator did it.

use anyhow::{Context, Result, ensure};

/// Times of one execution of the runner, milliseconds.
#[derive(Debug, PartialEq)]
pub(super) struct Profile {
    /// The runner's own time to initialise: backend, device, context.
    pub(super) load_ms: f64,
    /// The runner's own time of each inference, in order.
    pub(super) runs_ms: Vec<f64>,
    /// The backend's time on the accelerator of each inference, in order.
    pub(super) accelerator_ms: Vec<f64>,
}

impl Profile {
    /// Reads the viewer's text, which has the initialisation, and its table, which has each inference.
    pub(super) fn of(text: &str, table: &str) -> Result<Self> {
        let initial = text.split("Init Stats:").nth(1).unwrap_or_default();
        let load = initial
            .lines()
            .find_map(|line| line.trim().strip_prefix("NetRun:"))
            .and_then(|rest| {
                let (figure, unit) = rest.trim().split_once(' ')?;
                figure.parse::<f64>().ok().filter(|_| unit.trim() == "us")
            });
        let load =
            load.context("the profile tells no time of initialisation (`Init Stats`, `NetRun`)")?;
        let mut profile = Self {
            load_ms: load / 1e3,
            runs_ms: vec![],
            accelerator_ms: vec![],
        };
        for line in table.lines() {
            // Time stamp, message, figure, unit, source, level, event.
            let cells: Vec<_> = line.split(',').map(str::trim).collect();
            let [_, "EXECUTE", figure, "US", source, "ROOT", rest @ ..] = cells.as_slice() else {
                continue;
            };
            let kept = match *source {
                "NETRUN" => &mut profile.runs_ms,
                "BACKEND" if rest.join(",").contains("QNN accelerator (execute) time") => {
                    &mut profile.accelerator_ms
                }
                _ => continue,
            };
            let figure: f64 = figure
                .parse()
                .with_context(|| format!("the profile's table has no figure in `{line}`"))?;
            kept.push(figure / 1e3);
        }
        Ok(profile)
    }

    /// Checks that there are as many inferences as were requested, each on the accelerator for some time: QNN's CPU and
    /// GPU backends have no such figure.
    pub(super) fn check(&self, expected: usize) -> Result<()> {
        let runs = self.runs_ms.len();
        let on_it = self.accelerator_ms.len();
        ensure!(
            runs == expected,
            "{expected} inferences were asked for, and the profile tells of {runs}"
        );
        let count = self.accelerator_ms.iter().filter(|ms| **ms > 0.0).count();
        ensure!(
            on_it == expected && count == expected,
            "the profile shows time on the accelerator for {count} of {expected} inferences: the rest ran elsewhere"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Qnn Init/Prepare/Finalize/De-Init/Execute/Lib-Load Statistics:\n\nInit Stats:\n-----------\n\
        \x20   NetRun:  331158 us\n\nExecute Stats (Average):\n------------------------\n    NetRun:  2952 us\n";
    const TABLE: &str = "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n\
        1,EXECUTE,3000,US,NETRUN,ROOT,\n2,EXECUTE,2600,US,BACKEND,ROOT,QNN accelerator (execute) time\n\
        2,EXECUTE,99,CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)\n\
        3,EXECUTE,2900,US,NETRUN,ROOT,\n4,EXECUTE,2500,US,BACKEND,ROOT,QNN accelerator (execute) time\n";

    #[test]
    fn each_inference_has_its_times() {
        let profile = Profile::of(TEXT, TABLE).unwrap();
        assert_eq!(profile.load_ms, 331.158);
        assert_eq!(profile.runs_ms, [3.0, 2.9]);
        assert_eq!(profile.accelerator_ms, [2.6, 2.5]);
        profile.check(2).unwrap();
        assert!(
            profile
                .check(3)
                .unwrap_err()
                .to_string()
                .contains("tells of 2")
        );
    }

    #[test]
    fn without_time_on_the_accelerator_it_ran_elsewhere() {
        let cpu: String = TABLE
            .lines()
            .filter(|line| !line.contains("accelerator"))
            .map(|l| format!("{l}\n"))
            .collect();
        let error = Profile::of(TEXT, &cpu)
            .unwrap()
            .check(2)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the profile shows time on the accelerator for 0 of 2 inferences: the rest ran elsewhere"
        );
        assert!(
            Profile::of(TEXT, &TABLE.replace("2600", "0"))
                .unwrap()
                .check(2)
                .is_err()
        );
        assert!(
            Profile::of("", TABLE)
                .unwrap_err()
                .to_string()
                .contains("no time of initialisation")
        );
    }
}
