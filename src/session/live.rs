//! The pages of a spec as the store stands: made anew when a run kept something, or a spec changed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::event::Event;
use crate::report::site::{self, Files};
use crate::report::{ReportDoc, Trends, html, json};
use crate::session::{Ask, Locations, Request, Session, absolute, runs_dir, trends};
use crate::store::{DiskStore, LogExtent};

/// Pages of a large spec take their time: they are made at most for a third of it.
const REST: u32 = 2;

/// What pages are of: the store's log, and the files of the spec with their times.
type Seen = (Option<LogExtent>, Vec<(PathBuf, Option<SystemTime>)>);

pub struct Live {
    locations: Locations,
    request: Request,
    shown: Option<Arc<Shown>>,
    seen: Option<Seen>,
    /// No pages are made before.
    rests_until: Instant,
    /// Counts what was shown.
    turn: u64,
}

/// What is shown now.
pub struct Shown {
    /// Another one is of other pages.
    pub version: u64,
    pub what: Result<Pages, String>,
}

pub struct Pages {
    pub report: String,
    doc: ReportDoc,
    trends: Trends,
    site: std::sync::OnceLock<Result<Files, String>>,
}

impl Pages {
    /// The files below the site's folder.
    pub fn site(&self) -> Result<&Files, &str> {
        let made = self.site.get_or_init(|| {
            site::site(&self.doc, None, &self.trends).map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::as_str)
    }

    pub fn json(&self) -> String {
        json::render(&self.doc)
    }
}

impl Live {
    pub fn new(locations: Locations, request: Request) -> Self {
        Self {
            locations,
            request,
            shown: None,
            seen: None,
            rests_until: Instant::now(),
            turn: 0,
        }
    }

    /// The pages of what there is now.
    pub fn shown(&mut self) -> Arc<Shown> {
        if let Some(shown) = &self.shown
            && (Instant::now() < self.rests_until
                || self
                    .seen
                    .as_ref()
                    .is_some_and(|seen| *seen == self.look(&seen.1)))
        {
            return shown.clone();
        }
        let began = Instant::now();
        // Looked at before, so that what changes meanwhile is seen the next time.
        let files = self.seen.take().map(|(_, files)| files).unwrap_or_default();
        let before = self.look(&files);
        let made = self.make();
        let files = made
            .as_ref()
            .map_or(vec![self.request.spec.clone()], |(_, files)| files.clone());
        let stamped = files
            .into_iter()
            .map(|path| (path.clone(), modified(&path)))
            .collect();
        self.seen = Some((before.0, stamped));
        self.turn += 1;
        self.rests_until = Instant::now() + began.elapsed() * REST;
        let what = made
            .map(|(pages, _)| pages)
            .map_err(|error| format!("{error:#}"));
        self.shown
            .insert(Arc::new(Shown {
                version: self.turn,
                what,
            }))
            .clone()
    }

    fn look(&self, files: &[(PathBuf, Option<SystemTime>)]) -> Seen {
        let root = absolute(&self.locations.cache_dir)
            .map(|dir| DiskStore::root_below(&dir))
            .ok();
        let log = root.and_then(|root| DiskStore::log_extent(&root));
        (
            log,
            files
                .iter()
                .map(|(path, _)| (path.clone(), modified(path)))
                .collect(),
        )
    }

    fn make(&self) -> anyhow::Result<(Pages, Vec<PathBuf>)> {
        let session = Session::open(&self.locations)?;
        let project = session.project(&self.request, Ask::Installed)?;
        let options = project.idle_options();
        let doc = session.held(&project, &options, &|_: Event| {})?;
        // What it may have to say of the history belongs to no page.
        let trends = trends(&self.locations, &|_| {});
        let report = html::render_with(&doc, &trends)?;
        let files = project.files.iter().map(|file| file.path.clone());
        // A run leaves its file there when it ends.
        let files = files.chain([runs_dir(&self.locations)?]).collect();
        Ok((
            Pages {
                report,
                doc,
                trends,
                site: std::sync::OnceLock::new(),
            },
            files,
        ))
    }
}

fn modified(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}
