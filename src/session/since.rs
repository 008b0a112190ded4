//! The earlier runs that a report is compared with: the last one of the same part of the same spec, and the newest of those
//! that are a week old.

use jiff::{SignedDuration, Timestamp};

use crate::base::figures;
use crate::history::{self, RunFile};
use crate::report::{ReportDoc, Since};
use crate::session::{Locations, runs_dir};

/// A run counts as a week old after so many hours.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
/// At most so many files of runs are read for each of the two: others are runs of other specs, and the file of a run of
/// thousands of cases takes a while.
const MAX_READ: usize = 5;

/// What changed since those runs. `run`: the name of the run that the report is of, and `started` its beginning. A file that
/// cannot be read is passed over: the commands that read the history report it.
pub(super) fn since(
    locations: &Locations,
    run: &str,
    started: &str,
    doc: &ReportDoc,
) -> Vec<Since> {
    let Ok(runs) = runs_dir(locations) else {
        return Vec::new();
    };
    let names: Vec<String> = history::names(&runs)
        .into_iter()
        .filter(|name| name.as_str() < run)
        .collect();
    let newest = |names: &[String]| {
        let read = names.iter().take(MAX_READ);
        read.filter_map(|name| history::run_file(&runs, name).ok())
            .find(|file| is_of_the_same(file, doc))
    };
    let mut earlier: Vec<RunFile> = newest(&names).into_iter().collect();
    if let Some(limit) = week_before(started) {
        let old = names.partition_point(|name| name.as_str() >= limit.as_str());
        earlier.extend(newest(&names[old..]));
    }
    earlier.dedup_by(|one, other| one.about.run == other.about.run);
    earlier
        .into_iter()
        .filter_map(|file| {
            let RunFile {
                about, doc: base, ..
            } = file;
            Some(Since::between(about.run, about.started, &base?, doc))
        })
        .collect()
}

fn is_of_the_same(file: &RunFile, doc: &ReportDoc) -> bool {
    let is_same = |base: &ReportDoc| base.spec == doc.spec && base.scope == doc.scope;
    !file.about.interrupted && file.doc.as_ref().is_some_and(is_same)
}

/// The name that a run would have that began a week before this moment.
fn week_before(started: &str) -> Option<String> {
    let moment: Timestamp = started.parse().ok()?;
    let limit = figures::moment(moment.checked_sub(WEEK).ok()?);
    Some(history::name(&limit))
}
