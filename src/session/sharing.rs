//! The remote store of a command, if one is configured and this orch can speak to it.

use std::sync::Arc;

use crate::base::variable;
use crate::config::{self, RemoteConfig};
#[cfg(not(feature = "remote"))]
use crate::event::Event;
use crate::event::Listener;
use crate::session::{Locations, Settings, UsageError};
use crate::store::DiskStore;
use crate::store::remote::Remote;
use crate::worker::Cancel;

#[cfg(feature = "remote")]
use crate::store::remote::Hub;

/// What the configuration of the current folder says.
pub fn configured() -> anyhow::Result<Option<RemoteConfig>> {
    let here = std::env::current_dir()?;
    Ok(config::remote(&here, variables()).map_err(UsageError)?)
}

/// Those of this process that are text.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    variable::all().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        Some((name, value.into_string().ok()?))
    })
}

#[cfg(not(feature = "remote"))]
pub const NOT_BUILT: &str =
    "this orch was built without remote stores\n  hint: cargo build --features remote";

/// Whether a run has something to do or to say about a remote even if no step has: results of earlier runs are still to be
/// sent, or the configuration cannot be read.
pub(super) fn owes(locations: &Locations, off: bool) -> bool {
    match configured() {
        _ if off => false,
        Err(_) => true,
        Ok(config) => config.is_some_and(|config| has_pending(locations, &config)),
    }
}

#[cfg(feature = "remote")]
fn has_pending(locations: &Locations, config: &RemoteConfig) -> bool {
    let dir = crate::session::absolute(&locations.cache_dir);
    dir.is_ok_and(|dir| Hub::owes(config, &DiskStore::root_below(&dir)))
}

#[cfg(not(feature = "remote"))]
fn has_pending(_: &Locations, _: &RemoteConfig) -> bool {
    false
}

pub(super) struct Sharing {
    #[cfg(feature = "remote")]
    hub: Option<Hub>,
}

#[cfg(feature = "remote")]
impl Sharing {
    pub(super) fn open(
        settings: &Settings,
        store: &Arc<DiskStore>,
        _: &dyn Listener,
    ) -> anyhow::Result<Self> {
        let mut config = match settings.no_remote {
            true => None,
            false => configured()?,
        };
        if let (Some(config), Some(download)) = (&mut config, settings.executor.download) {
            config.download = download;
        }
        let hub = config
            .map(|config| Hub::open(config, store.clone()))
            .transpose()
            .map_err(UsageError)?;
        if let Some(hub) = &hub {
            hub.resume();
        }
        Ok(Self { hub })
    }

    pub(super) fn remote(&self) -> Option<&dyn Remote> {
        self.hub.as_ref().map(|hub| hub as &dyn Remote)
    }

    /// Waits for uploads, reports how many are left, and sums up what the remote store did.
    pub(super) fn finish(
        &self,
        cancel: &Cancel,
        waits: impl FnMut(usize),
    ) -> Option<RemoteSummary> {
        finish(self.hub.as_ref()?, cancel, waits)
    }
}

/// What a remote did, and whether something about it was wrong.
pub struct RemoteSummary {
    pub text: String,
    pub is_warning: bool,
}

#[cfg(feature = "remote")]
pub fn finish(hub: &Hub, cancel: &Cancel, mut waits: impl FnMut(usize)) -> Option<RemoteSummary> {
    let left = hub.finish(|left| {
        waits(left);
        !cancel.is_cancelled()
    });
    let (mut text, mut is_warning) = hub.summary().unwrap_or_default();
    if left > 0 {
        let lead = if text.is_empty() { "remote: " } else { "; " };
        text.push_str(&format!(
            "{lead}{left} not uploaded yet: the next run or `orch cache push` goes on"
        ));
        is_warning = true;
    }
    (!text.is_empty()).then_some(RemoteSummary { text, is_warning })
}

#[cfg(not(feature = "remote"))]
impl Sharing {
    /// Says once that results are not shared, although they are meant to be.
    pub(super) fn open(
        settings: &Settings,
        _: &Arc<DiskStore>,
        listener: &dyn Listener,
    ) -> anyhow::Result<Self> {
        if !settings.no_remote && configured()?.is_some() {
            let text =
                format!("a remote store is configured and not used: {NOT_BUILT}, or --no-remote");
            listener.tell(Event::Warning { text });
        }
        Ok(Self {})
    }

    pub(super) fn remote(&self) -> Option<&dyn Remote> {
        None
    }

    pub(super) fn finish(&self, _: &Cancel, _: impl FnMut(usize)) -> Option<RemoteSummary> {
        None
    }
}
