//! What commands ask of the history: runs, the results of one, and the series of a case.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Reader;
use super::change::noise;
use crate::base::Bug;
use crate::base::figures;
use crate::exec::MaxAge;
use crate::record::Weights;
use crate::report::compare::{Noise, Noises};
use crate::report::{Basis, Machine, ReportDoc};

/// A row of `runs`. Moments are RFC 3339, UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub run: String,
    pub started: String,
    pub seconds: Option<f64>,
    pub command: Option<String>,
    pub spec: Option<String>,
    pub scope: Option<String>,
    pub git_revision: Option<String>,
    pub git_branch: Option<String>,
    pub git_dirty: Option<bool>,
    pub host: Option<String>,
    pub host_fingerprint: Option<String>,
    pub interrupted: Option<bool>,
    /// The run whose results were still valid, where it had nothing to do.
    pub same_as: Option<String>,
    pub steps_executed: Option<u32>,
    pub cases: Option<u32>,
    pub passed: Option<u32>,
    pub failed: Option<u32>,
    /// Its cases that were executed by itself.
    pub measured: u32,
    /// Where it left only a journal: `killed`, `goes on`, `interrupted`, or `ended` of one without cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What its models compute with, a line each; only where that was requested ([`Reader::models`]).
    #[serde(default)]
    pub weights: Vec<String>,
}

/// A model of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct ModelRow {
    pub run: String,
    pub model: String,
    pub weights: Option<Weights>,
    pub parameters: Option<u64>,
}

/// One execution in the series of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub execution: String,
    pub case_id: String,
    pub weights: Option<Weights>,
    pub parameters: Option<u64>,
    pub host: Option<String>,
    /// What distinguishes its CPU from others of that name; None of older versions of orch.
    pub cpu_identity: Option<String>,
    /// What kind of machine; known where the run is.
    pub host_fingerprint: Option<String>,
    pub executed: String,
    pub run: Option<String>,
    pub git_revision: Option<String>,
    pub git_dirty: Option<bool>,
    pub state: String,
    pub reason: Option<String>,
    pub fallback: Option<String>,
    /// `emulated` or `software`, where no hardware ran it.
    pub stand_in: Option<String>,
    pub median_ms: Option<f64>,
    /// The least and the greatest of several rounds' medians.
    pub median_low_ms: Option<f64>,
    pub median_high_ms: Option<f64>,
    /// What is compared with other executions, on one basis only ([`crate::report::Statistic`]); None in reports of before there was one.
    pub statistic_ms: Option<f64>,
    pub statistic_basis: Option<String>,
    /// The lowest sample.
    pub min_ms: Option<f64>,
    pub samples: Option<u32>,
    pub rounds: Option<u32>,
    pub remarks: Option<String>,
    pub load_ms: Option<f64>,
    pub peak_rss_bytes: Option<u64>,
    pub key: Option<String>,
}

/// A run as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// 1 is the last, 2 the one before.
    Last(u32),
    /// Its name, or how that begins.
    Named(String),
    /// The last one at a git revision, or how that begins.
    Revision(String),
    /// The last one that began before this moment, RFC 3339, UTC.
    Before(String),
}

impl Which {
    /// `2`, `20260131T080000.123Z-1a2b`, `2026-01-31` (the last run until the end of that day, UTC), `2026-01-31T08:00:00Z`, `7d` (the
    /// last run that is at least so old), or else a git revision. What only git knows, such as a branch, is for the caller to resolve.
    pub fn of(text: &str) -> Self {
        // Longer ones may be commits.
        let is_short = text.len() < 5;
        let day = || {
            Some(
                text.parse::<jiff::civil::Date>()
                    .ok()?
                    .tomorrow()
                    .ok()?
                    .to_string(),
            )
        };
        let moment = || Some(text.parse::<Timestamp>().ok()?.to_string());
        let age = || ago(text.parse::<MaxAge>().ok().filter(|_| is_short)?.length());
        let is_name = matches!(text.as_bytes().split_at_checked(8), Some((day, [b'T', ..])) if day.iter().all(u8::is_ascii_digit));
        match text.parse() {
            Ok(number) if is_short => Self::Last(number),
            _ if is_name => Self::Named(text.to_owned()),
            _ => moment()
                .or_else(day)
                .or_else(age)
                .map_or_else(|| Self::Revision(text.to_owned()), Self::Before),
        }
    }
}

/// The moment that was so long ago.
fn ago(age: Duration) -> Option<String> {
    Some(figures::moment(Timestamp::now().checked_sub(age).ok()?))
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

const RUNS: &str = "SELECT * REPLACE (strftime(started, '%Y-%m-%dT%H:%M:%S.%gZ') AS started),
    (SELECT count(*) FROM results WHERE results.run = runs.run AND execution IS NOT NULL AND NOT kept) AS measured
    FROM runs";

const POINTS: &str = "SELECT executions.* REPLACE (strftime(executions.executed, '%Y-%m-%dT%H:%M:%SZ') AS executed),
    runs.host_fingerprint, runs.git_revision, runs.git_dirty FROM executions LEFT JOIN runs USING (run)";
const OLDEST_FIRST: &str = "ORDER BY executions.executed, executions.id";

impl Point {
    /// Whether one machine executed both, as far as that is known: two CPUs may stand behind one name.
    pub fn is_of_machine_of(&self, other: &Self) -> bool {
        let is_known = self.cpu_identity.is_some() && other.cpu_identity.is_some();
        self.host == other.host && (!is_known || self.cpu_identity == other.cpu_identity)
    }

    /// What is compared, with its basis: the lowest sample where nobody chose another.
    pub fn compared(&self) -> Option<(f64, Option<&str>)> {
        let chosen = self
            .statistic_ms
            .map(|ms| (ms, self.statistic_basis.as_deref()));
        chosen
            .or(self.min_ms.map(|ms| (ms, None)))
            .filter(|(ms, _)| *ms > 0.0)
    }
}

impl Reader {
    /// The last runs, newest first.
    pub fn runs(&self, most: u32) -> Result<Vec<RunRow>> {
        self.fetch(
            &format!("{RUNS} ORDER BY runs.started DESC, run DESC LIMIT {most}"),
            &[],
        )
    }

    /// The models of runs that began at this moment or later, as far as one of their cases was ever executed.
    pub fn models(&self, since: &str) -> Result<Vec<ModelRow>> {
        let query = "SELECT DISTINCT results.run, executions.model, weights, parameters
            FROM results JOIN executions USING (execution) JOIN runs ON runs.run = results.run
            WHERE runs.started >= $1::TIMESTAMP";
        self.fetch(query, &[since])
    }

    /// The run that is meant, if there is one.
    pub fn run(&self, which: &Which) -> Result<Option<RunRow>> {
        let last = "ORDER BY runs.started DESC, run DESC LIMIT 1";
        let run = |which: &str, values: &[&str]| self.fetch(&format!("{RUNS} {which}"), values);
        let found = match which {
            Which::Last(number) => run(&format!("{last} OFFSET {}", number.saturating_sub(1)), &[]),
            Which::Named(name) => run(&format!("WHERE starts_with(run, $1) {last}"), &[name]),
            Which::Revision(name) => run(
                &format!("WHERE starts_with(git_revision, $1) {last}"),
                &[name],
            ),
            Which::Before(moment) => run(
                &format!("WHERE runs.started < $1::TIMESTAMP {last}"),
                &[moment],
            ),
        };
        Ok(found?.pop())
    }

    /// The newest whole run of the same spec, or of the same part of it, that is at least a week old and no newer than the report; of the
    /// report's machine if it ever ran there.
    pub fn last_week(&self, doc: &ReportDoc) -> Result<Option<RunRow>> {
        let week_ago = ago(WEEK).context("the clock stands before all time")?;
        let measured = doc
            .cases
            .iter()
            .filter_map(|case| case.measured.as_ref())
            .max();
        let began = doc
            .run
            .as_ref()
            .map(|run| &run.started)
            .or(measured)
            .unwrap_or(&week_ago);
        let which =
            "WHERE spec = $1 AND coalesce(scope, '') = $2 AND NOT coalesce(interrupted, false)
            AND runs.started <= least($3::TIMESTAMP, $4::TIMESTAMP)
            ORDER BY host = $5 DESC NULLS LAST, runs.started DESC, run DESC LIMIT 1";
        let scope = doc.scope.as_deref().unwrap_or_default();
        Ok(self
            .fetch(
                &format!("{RUNS} {which}"),
                &[&doc.spec, scope, &week_ago, began, &doc.host.name],
            )?
            .pop())
    }

    /// The executions of one case, oldest first; on one machine, or on all.
    pub fn series(&self, case: &str, host: Option<&str>) -> Result<Vec<Point>> {
        let which = "case_id = $1 AND ($2 = '' OR executions.host = $2)";
        self.fetch(
            &format!("{POINTS} WHERE {which} {OLDEST_FIRST}"),
            &[case, host.unwrap_or_default()],
        )
    }

    /// The executions of all cases, oldest first; those of fallbacks have figures of other devices.
    pub(super) fn points(&self) -> Result<Vec<Point>> {
        self.fetch(
            &format!("{POINTS} WHERE fallback IS NULL {OLDEST_FIRST}"),
            &[],
        )
    }

    /// How much the figures of each case vary on one machine, where there are enough of them.
    pub fn noises(&self, machine: &Machine<'_>) -> Result<Noises> {
        #[derive(Deserialize)]
        struct Series {
            case_id: String,
            statistic_basis: Basis,
            figures: Vec<f64>,
        }
        let query =
            "SELECT case_id, statistic_basis, list(statistic_ms ORDER BY executed, id) AS figures FROM executions
            WHERE host = $1 AND coalesce(cpu_identity, $2) = $2 AND statistic_ms > 0 AND fallback IS NULL GROUP BY ALL";
        let mut found: Vec<Series> = self.fetch(query, &[machine.name, machine.identity])?;
        found.retain(|series| series.figures.len() >= Noise::LEAST);
        let noise = |figures: &[f64]| Noise {
            share: noise(figures),
            executions: figures.len(),
        };
        Ok(found
            .into_iter()
            .map(|it| ((it.case_id, it.statistic_basis), noise(&it.figures)))
            .collect())
    }

    /// All cases that were executed, by name.
    pub fn cases(&self) -> Result<Vec<String>> {
        self.connection.texts(
            "SELECT DISTINCT case_id FROM executions ORDER BY case_id",
            &[],
        )
    }

    /// Rows as values, by the names of columns.
    fn fetch<T: DeserializeOwned>(&self, query: &str, values: &[&str]) -> Result<Vec<T>> {
        let rows = self.connection.texts(
            &format!("SELECT to_json(t)::VARCHAR FROM ({query}) t"),
            values,
        )?;
        let parse = |text: String| {
            serde_json::from_str(&text).context(Bug::new("a row is not of its type"))
        };
        rows.into_iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_in_several_ways() {
        assert_eq!(Which::of("2"), Which::Last(2));
        assert_eq!(
            Which::of("20260131T080000.123Z-1a2b"),
            Which::Named("20260131T080000.123Z-1a2b".into())
        );
        assert_eq!(Which::of("2026-01-31"), Which::Before("2026-02-01".into()));
        assert_eq!(
            Which::of("2026-01-31T08:00:00+01:00"),
            Which::Before("2026-01-31T07:00:00Z".into())
        );
        let Which::Before(moment) = Which::of("7d") else {
            panic!("it is an age")
        };
        let age = Timestamp::now()
            .duration_since(moment.parse().unwrap())
            .as_secs();
        assert!((7 * 86_400..7 * 86_400 + 60).contains(&age), "{age}");
        // `1234567d` is an age for some, and a commit here.
        for revision in [
            "1a2b3c4",
            "main",
            "12345678",
            "1234567d",
            "2mo",
            "öäüöäüöäü",
        ] {
            assert_eq!(Which::of(revision), Which::Revision(revision.into()));
        }
    }
}
