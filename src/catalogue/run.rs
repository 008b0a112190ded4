//! The parameters of a run, all of it in its key.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Needs, Runtime};
use crate::base::Precision;
use crate::device::BackendRow;
use crate::runtime::measure::MeasureParams;

/// A target's options of its runtime, by name.
pub(super) type Options = serde_json::Map<String, Value>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunParams {
    pub runtime: &'static Runtime,
    /// The backend whose prober reports whether the device is there.
    pub backend: &'static BackendRow,
    pub device: String,
    pub precision: Precision,
    pub options: Options,
    /// What an executor's worker must offer to perform it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    pub measure: TestMeasure,
    /// File name of the generated test, where that is what runs.
    pub test: Option<String>,
    /// [`Runtime::computes`]. A run at fp32 that `half` came to is so the same as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<String>,
    /// The number of this round of several, from 2 on. The first is the run that is judged, and the same step however many follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
}

/// How a run is timed: by these figures, or by the word `none` not at all. An untimed run is so another step than a timed
/// one, and neither is taken for the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TestMeasure {
    Times {
        warmup: u32,
        samples: u32,
        max_seconds: f64,
    },
    Untimed(Untimed),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Untimed {
    None,
}

impl TestMeasure {
    pub const NONE: Self = Self::Untimed(Untimed::None);

    pub fn is_timed(&self) -> bool {
        *self != Self::NONE
    }

    /// What a worker gets of it; None for a run that is not timed.
    pub(super) fn params(&self) -> Option<MeasureParams> {
        match *self {
            Self::Times {
                warmup,
                samples,
                max_seconds,
            } => Some(MeasureParams {
                warmup,
                samples,
                max_seconds,
                timeout_seconds: None,
            }),
            Self::Untimed(_) => None,
        }
    }
}

impl RunParams {
    /// What a run asks for, before it could say so itself.
    pub fn requested_device(&self) -> String {
        let backend = self.backend.name;
        let device = &self.device;
        if backend == device {
            device.clone()
        } else {
            format!("{backend}:{device}")
        }
    }

    /// Whether another machine must perform it.
    pub fn is_elsewhere(&self) -> bool {
        !self.properties.is_empty()
    }

    /// Its options without `threads`, and this by itself: a runtime of orch's own takes it apart from what is its library's.
    pub(super) fn options_and_threads(&self) -> anyhow::Result<(Options, Option<u32>)> {
        let mut options = self.options.clone();
        let Some(given) = options.remove("threads") else {
            return Ok((options, None));
        };
        let threads = given
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0);
        let threads = threads.with_context(|| {
            format!("the option `threads` is {given}; it takes a whole number, at least 1")
        })?;
        Ok((options, Some(threads)))
    }

    /// The option `threads` of a runtime that has no others.
    pub(super) fn threads_alone(&self) -> anyhow::Result<Option<u32>> {
        let (options, threads) = self.options_and_threads()?;
        self.no_options(&options, "known: `threads`")?;
        Ok(threads)
    }

    /// An error if there are options that its runtime does not have.
    pub(super) fn no_options(&self, options: &Options, known: &str) -> anyhow::Result<()> {
        let name = self.runtime.name;
        match options.keys().next() {
            Some(option) => bail!("`{name}` takes no option `{option}`; {known}"),
            None => Ok(()),
        }
    }

    /// Two timed runs at a time on one device would time each other; a run that is only checked takes its share.
    pub(super) fn device_needs(&self) -> Needs {
        if self.backend.is_host {
            self.host_needs()
        } else {
            self.own_device(self.measure.is_timed())
        }
    }

    /// What a run on the machine's own CPU needs.
    pub(super) fn host_needs(&self) -> Needs {
        if self.measure.is_timed() {
            Needs::Exclusive
        } else {
            Needs::ONE_CORE
        }
    }

    pub(super) fn own_device(&self, timed: bool) -> Needs {
        Needs::Device {
            backend: self.backend.name.to_owned(),
            device: self.device.clone(),
            timed,
        }
    }
}
