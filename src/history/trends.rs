//! The series of all cases, as pages show them.

use std::collections::BTreeMap;

use anyhow::Result;

use super::change::changes;
use super::{Point, Reader};
use crate::report::{Executed, Trends};

impl Reader {
    /// The executions of each case on each machine, on the basis of the last one.
    pub fn trends(&self) -> Result<Trends> {
        let mut series: BTreeMap<(String, String), Vec<Point>> = BTreeMap::new();
        for point in self.points()? {
            let host = point.host.clone().unwrap_or_default();
            series
                .entry((point.case_id.clone(), host))
                .or_default()
                .push(point);
        }
        Ok(series
            .into_iter()
            .map(|(whose, points)| (whose, trend(&points)))
            .collect())
    }
}

fn trend(points: &[Point]) -> Vec<Executed> {
    let compared = || {
        points
            .iter()
            .filter_map(|point| Some((point, point.compared()?)))
    };
    let Some((newest, (_, last))) = compared().next_back() else {
        return Vec::new();
    };
    let mut points: Vec<Executed> = compared()
        .filter(|(point, (_, basis))| *basis == last && point.is_of_machine_of(newest))
        .map(|(point, (ms, _))| executed(point, ms))
        .collect();
    let figures: Vec<f64> = points.iter().map(|one| one.lowest_ms).collect();
    for change in changes(&figures) {
        points[change.at].shift = Some(change.by);
    }
    points
}

fn executed(point: &Point, lowest_ms: f64) -> Executed {
    let revision = point.git_revision.as_ref().map(|name| {
        let dirty = if point.git_dirty == Some(true) {
            "+"
        } else {
            ""
        };
        format!("{}{dirty}", name.get(..9).unwrap_or(name))
    });
    let when = point
        .executed
        .get(..16)
        .unwrap_or(&point.executed)
        .replace('T', " ");
    Executed {
        when,
        revision,
        state: point.state.clone(),
        median_ms: point.median_ms,
        lowest_ms,
        shift: None,
    }
}
