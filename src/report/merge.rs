//! One report of several: of the shards of a spec, or of one spec on several machines.

use anyhow::{Context as _, ensure};
use indexmap::IndexMap;

use super::{CaseResult, Git, Host, Machine, ReportDoc, RunOrigin, Summary};
use crate::device::Backend;
use crate::record::{Cpu, Outcome};

/// Merges documents of one spec, each with the name of its file. A case that several of them have is taken from the one
/// that ran it, and of those from the latest.
pub fn merge(documents: &[(String, ReportDoc)]) -> anyhow::Result<ReportDoc> {
    let (first_file, first) = documents.first().context("there is no report to merge")?;
    for (file, doc) in documents {
        let one = &first.spec;
        let other = &doc.spec;
        ensure!(
            one == other,
            "`{first_file}` is of `{one}`, and `{file}` of `{other}`; only reports of one spec make one report"
        );
    }
    one_division(documents)?;
    let docs = || documents.iter().map(|(_, doc)| doc);
    // Machines of one name may have unlike CPUs: containers and images often do.
    let machines: IndexMap<(&str, Cpu), &Host> = docs()
        .flat_map(ReportDoc::hosts)
        .map(|host| ((&*host.name, host.own_cpu()), host))
        .collect();
    let of = |doc: &ReportDoc, case: &CaseResult| {
        let machine = Machine::of(doc, case);
        let is_needed = machines.len() > 1;
        let host = case
            .host
            .clone()
            .or_else(|| is_needed.then(|| machine.name.to_owned()));
        let cpu = case
            .cpu
            .clone()
            .or_else(|| (is_needed && case.metrics.is_some()).then(|| machine.own_cpu()));
        let part = doc.scope.as_deref().and_then(part_by_model);
        CaseResult {
            host,
            cpu,
            part: case.part.clone().or_else(|| part.map(str::to_owned)),
            ..case.clone()
        }
    };
    let cases = docs().flat_map(|doc| doc.cases.iter().map(move |case| of(doc, case)));
    let cases = foremost(cases, |case| &case.case, rank);
    let excluded = docs().flat_map(|doc| doc.excluded.iter().cloned());
    let excluded = foremost(
        excluded.filter(|excluded| !cases.contains_key(&excluded.case)),
        |it| &it.case,
        |_| (),
    );
    let backends = docs().flat_map(|doc| doc.backends.iter().cloned());
    let backends: IndexMap<String, Backend> = foremost(
        backends,
        |backend| &backend.name,
        |backend| backend.available,
    );
    let cases = cases.into_values().collect::<Vec<_>>();
    let excluded = excluded.into_values().collect::<Vec<_>>();
    let several = machines.len() > 1;
    Ok(ReportDoc {
        since: Vec::new(),
        scope: scope(docs().map(|doc| doc.scope.as_deref())),
        machines: machines
            .into_values()
            .filter(|_| several)
            .cloned()
            .collect(),
        summary: Summary {
            steps: docs().map(|doc| doc.summary.steps).sum(),
            executed: docs().map(|doc| doc.summary.executed).sum(),
            hits: docs().map(|doc| doc.summary.hits).sum(),
            fetched: docs().map(|doc| doc.summary.fetched).sum(),
            failed_before: docs().map(|doc| doc.summary.failed_before).sum(),
            failed_steps: docs().map(|doc| doc.summary.failed_steps).sum(),
            seconds: docs().map(|doc| doc.summary.seconds).sum(),
            executed_seconds: docs().map(|doc| doc.summary.executed_seconds).sum(),
            saved_seconds: docs().map(|doc| doc.summary.saved_seconds).sum(),
            ..Summary::of(&cases, &excluded)
        },
        run: run(docs()),
        cases,
        flaky_steps: docs()
            .flat_map(|doc| doc.flaky_steps.iter().cloned())
            .collect(),
        excluded,
        backends: backends.into_values().collect(),
        ..first.clone()
    })
}

/// The run of several: when the first began; the commit if they are of one, and whether any was not as committed.
fn run<'a>(docs: impl Iterator<Item = &'a ReportDoc>) -> Option<RunOrigin> {
    let runs: Vec<&RunOrigin> = docs.map(|doc| doc.run.as_ref()).collect::<Option<_>>()?;
    let first = runs.iter().min_by_key(|run| &run.started)?;
    let revisions = || runs.iter().map(|run| run.git.as_ref());
    let is_of =
        |one: &&Git| revisions().all(|git| git.is_some_and(|git| git.revision == one.revision));
    let git = first.git.as_ref().filter(is_of).map(|one| Git {
        dirty: revisions().flatten().any(|git| git.dirty),
        ..one.clone()
    });
    Some(RunOrigin {
        started: first.started.clone(),
        git,
    })
}

/// One of each name, in the order in which the names come: the last of those that rank highest.
fn foremost<T, R: PartialOrd>(
    all: impl Iterator<Item = T>,
    name: fn(&T) -> &String,
    rank: fn(&T) -> R,
) -> IndexMap<String, T> {
    let mut kept: IndexMap<String, T> = IndexMap::new();
    for one in all {
        match kept.get_mut(name(&one)) {
            Some(known) if rank(&one) >= rank(known) => *known = one,
            Some(_) => {}
            None => drop(kept.insert(name(&one).clone(), one)),
        }
    }
    kept
}

/// What ran is before what could not, and that before what was not reached. RFC 3339 times in UTC sort as text.
fn rank(case: &CaseResult) -> (u8, Option<String>) {
    let ran = match case.status {
        Outcome::Incomplete => 0,
        Outcome::SkipUnavailable => 1,
        _ => 2,
    };
    (ran, case.measured.clone().or_else(|| case.ended.clone()))
}

/// None where the documents are all parts of one partition, or one of them is of the whole.
fn scope<'a>(scopes: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let scopes: Option<Vec<&str>> = scopes.collect();
    let mut scopes = scopes?;
    scopes.sort_unstable();
    scopes.dedup();
    (!is_whole(&scopes)).then(|| scopes.join(", "))
}

/// How a scope names a part of a partition by model: `partition model-1a2b3c4d:2/4`.
const BY_MODEL: &str = "partition model-";

fn part_by_model(scope: &str) -> Option<&str> {
    scope.rfind(BY_MODEL).map(|at| &scope[at..])
}

/// All parts of the division that a part belongs to.
fn parts_of(part: &str) -> Option<Vec<String>> {
    let (part, all) = part.strip_prefix("partition ")?.rsplit_once('/')?;
    let (kind, _) = part.rsplit_once(':')?;
    let all: u32 = all.parse().ok()?;
    let parts = (1..=all).map(|part| format!("partition {kind}:{part}/{all}"));
    Some(parts.collect())
}

fn is_whole(scopes: &[&str]) -> bool {
    scopes
        .iter()
        .filter_map(|scope| parts_of(scope))
        .any(|parts| parts.iter().all(|part| scopes.contains(&part.as_str())))
}

/// Parts that went by unlike durations are parts of unlike divisions: a case may be in none of them.
fn one_division(documents: &[(String, ReportDoc)]) -> anyhow::Result<()> {
    let parts: Vec<(&str, &str)> = documents
        .iter()
        .filter_map(|(file, doc)| Some((&**file, part_by_model(doc.scope.as_deref()?)?)))
        .collect();
    let Some((first_file, first)) = parts.first() else {
        return Ok(());
    };
    let names: Vec<&str> = parts.iter().map(|(_, part)| *part).collect();
    let division = |part: &str| parts_of(part);
    let other = parts
        .iter()
        .find(|(_, part)| division(part) != division(first));
    let Some((file, other)) = other else {
        return Ok(());
    };
    ensure!(
        is_whole(&names),
        "`{first_file}` is {first}, and `{file}` is {other}: a case may be in no part\n  hint: give `--durations` the same file in each part"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::fixture as doc;

    fn named(docs: impl IntoIterator<Item = ReportDoc>) -> Vec<(String, ReportDoc)> {
        docs.into_iter()
            .enumerate()
            .map(|(at, doc)| (format!("{at}.json"), doc))
            .collect()
    }

    #[test]
    fn shards_make_the_report_of_the_whole() {
        let whole = doc();
        let [mut one, mut other] = [whole.clone(), whole.clone()];
        one.scope = Some("partition hash:1/2".to_owned());
        other.scope = Some("partition hash:2/2".to_owned());
        let at = whole.cases.len() / 3;
        one.cases.truncate(at);
        other.cases.drain(..at);
        other.excluded.clear();
        let merged = merge(&named([other, one])).unwrap();
        assert_eq!((merged.scope, merged.machines.len()), (None, 0));
        let ids = |cases: &[CaseResult]| {
            cases
                .iter()
                .map(|case| case.case.clone())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(ids(&merged.cases), ids(&whole.cases));
        let counts = |summary: &Summary| {
            (
                summary.cases,
                summary.passed,
                summary.failed,
                summary.excluded,
            )
        };
        assert_eq!(counts(&merged.summary), counts(&whole.summary));
    }

    #[test]
    fn a_case_is_of_the_machine_that_ran_it() {
        let mut with = doc();
        let mut without = doc();
        (with.host.name, without.host.name) = ("gpu".to_owned(), "laptop".to_owned());
        let (at, case) = with
            .cases
            .iter()
            .enumerate()
            .find(|(_, case)| case.status == Outcome::SkipUnavailable)
            .unwrap();
        let ran = CaseResult {
            status: Outcome::Pass,
            measured: Some("2026-01-01T00:00:00Z".to_owned()),
            ..case.clone()
        };
        with.cases[at] = ran;
        for docs in [[with.clone(), without.clone()], [without, with]] {
            let merged = merge(&named(docs)).unwrap();
            assert_eq!(
                (merged.cases[at].status, merged.cases[at].host.as_deref()),
                (Outcome::Pass, Some("gpu"))
            );
            assert_eq!(merged.machines.len(), 2);
            // Once more with itself, nothing is new.
            let again = merge(&named([merged.clone(), merged.clone()])).unwrap();
            assert_eq!(
                (again.cases[at].host.as_deref(), again.cases.len()),
                (Some("gpu"), merged.cases.len())
            );
        }
    }

    #[test]
    fn reports_of_two_specs_are_not_one() {
        let other = ReportDoc {
            spec: "other.yaml".to_owned(),
            ..doc()
        };
        let error = merge(&named([doc(), other])).unwrap_err().to_string();
        assert!(
            error.contains("`0.json` is of `specs/all.yaml`, and `1.json` of `other.yaml`"),
            "{error}"
        );
    }

    #[test]
    fn all_parts_are_the_whole() {
        let merged = |scopes: &[Option<&str>]| scope(scopes.iter().copied());
        assert_eq!(
            merged(&[Some("partition hash:2/2"), Some("partition hash:1/2")]),
            None
        );
        assert_eq!(merged(&[Some("partition hash:2/2"), None]), None);
        let some = merged(&[Some("partition hash:3/3"), Some("partition hash:1/3")]);
        assert_eq!(
            some.as_deref(),
            Some("partition hash:1/3, partition hash:3/3")
        );
        assert_eq!(
            merged(&[Some("affected by main")]).as_deref(),
            Some("affected by main")
        );
    }
}
