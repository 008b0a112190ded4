//! `[executor]`: a server that executes steps, and what its workers must have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::base::words::words;
use crate::config::{FILE, address, seconds, texts, up_to};

const OPTION: &str = "ORCH_EXECUTOR_OPTION_";

#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    /// `grpc://host:port/instance`
    pub url: String,
    pub whereabouts: Where,
    /// Certificates and tokens.
    pub options: BTreeMap<String, String>,
    /// Platform properties of every action, besides those that orch sets; an empty value takes away one of orch's.
    /// [`DEVICE_PLACE`] stands for a run's backend.
    pub properties: BTreeMap<String, String>,
    /// The environment of orch on the workers.
    pub env: BTreeMap<String, String>,
    /// orch on the workers; None sends this one along.
    pub program: Option<PathBuf>,
    pub download: Download,
    /// Steps that are there at a time.
    pub slots: u32,
    /// How long a step waits for a worker.
    pub queue: Duration,
    /// The time that the server is requested to let a step execute; None for as long as it does by itself.
    pub limit: Option<Duration>,
    /// The time within which an answer must be there, repetitions included.
    pub timeout: Duration,
    /// How often a request is repeated after an error that may pass, and a step whose worker was lost.
    pub retries: u32,
}

/// The place where steps execute that could execute elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Here.
    Local,
    /// There, each of them.
    Remote,
    /// There, if they need a device that is not here.
    #[default]
    Auto,
}

words!(pub Where { "local" => Local, "remote" => Remote, "auto" => Auto });

/// What of that which steps made there is fetched besides what something here reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Download {
    /// All of it.
    #[default]
    All,
    /// What no other step reads, and what was requested by name.
    Toplevel,
    None,
}

impl Download {
    /// Whether what a step made stays where it was made until something here reads it. `is_top`: no other step reads it,
    /// or it was requested by name.
    pub fn leaves(self, is_top: bool) -> bool {
        match self {
            Self::All => false,
            Self::Toplevel => !is_top,
            Self::None => true,
        }
    }
}

/// What the command line says of the executor; it goes before the file.
#[derive(Debug, Clone, Default)]
pub struct ExecutorOverride {
    pub url: Option<String>,
    /// The steps that go there.
    pub whereabouts: Option<Where>,
    /// What is fetched of what steps made there.
    pub download: Option<Download>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    url: Option<String>,
    #[serde(rename = "where")]
    whereabouts: Option<Where>,
    download: Option<Download>,
    #[serde(default)]
    options: BTreeMap<String, toml::Value>,
    #[serde(default)]
    properties: BTreeMap<String, toml::Value>,
    #[serde(default)]
    env: BTreeMap<String, toml::Value>,
    program: Option<PathBuf>,
    slots: Option<u32>,
    queue: Option<f64>,
    limit: Option<f64>,
    timeout: Option<f64>,
    retries: Option<u32>,
}

/// The command line goes before variables, and these before the file.
pub(super) fn of(
    section: Option<Section>,
    variables: impl Iterator<Item = (String, String)>,
    given: &ExecutorOverride,
) -> Result<Option<ExecutorConfig>, String> {
    let named = section.is_some();
    let section = section.unwrap_or_default();
    let mut options = texts("option", "executor", section.options)?;
    let mut url = section.url;
    for (name, value) in variables {
        if name == "ORCH_EXECUTOR" {
            url = Some(value);
        } else if let Some(option) = name.strip_prefix(OPTION) {
            options.insert(option.to_lowercase(), value);
        }
    }
    let Some(url) = address("executor", given.url.clone().or(url), named)? else {
        return Ok(None);
    };
    Ok(Some(ExecutorConfig {
        url,
        whereabouts: given
            .whereabouts
            .or(section.whereabouts)
            .unwrap_or_default(),
        download: given.download.or(section.download).unwrap_or_default(),
        options,
        properties: places(texts("property", "executor", section.properties)?)?,
        env: texts("variable", "executor", section.env)?,
        program: section.program,
        slots: up_to(1024, "slots", section.slots.unwrap_or(16))?,
        queue: seconds("queue", section.queue.unwrap_or(600.0))?,
        limit: section
            .limit
            .map(|limit| seconds("limit", limit))
            .transpose()?,
        timeout: seconds("timeout", section.timeout.unwrap_or(30.0))?,
        retries: section.retries.unwrap_or(3),
    }))
}

/// The placeholder in a property's name or value; a property that has it is required of runs alone.
pub const DEVICE_PLACE: &str = "{device}";

/// An error if a property has a place that nothing is filled in.
fn places(properties: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let is_open = |text: &String| text.replace(DEVICE_PLACE, "").contains(['{', '}']);
    match properties
        .iter()
        .find(|(name, value)| is_open(name) || is_open(value))
    {
        Some((name, value)) => Err(format!(
            "{FILE}: the property `{name} = '{value}'`\n  hint: `{DEVICE_PLACE}` is the only placeholder"
        )),
        None => Ok(properties),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(
        text: &str,
        variables: &[(&str, &str)],
        given: Option<&str>,
    ) -> Result<Option<ExecutorConfig>, String> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        of(
            crate::config::file(text)?.executor,
            variables,
            &ExecutorOverride {
                url: given.map(str::to_owned),
                ..ExecutorOverride::default()
            },
        )
    }

    #[test]
    fn the_command_line_goes_before_variables_and_these_before_the_file() {
        assert!(with("", &[], None).unwrap().is_none());
        let text = "[executor]\nurl = 'grpc://a:1'\nwhere = 'remote'\nproperties = {pool = 'lab', n = 2}\nqueue = 5\nlimit = 7200";
        let executor = with(text, &[("ORCH_EXECUTOR_OPTION_TOKEN", "secret")], None)
            .unwrap()
            .unwrap();
        assert_eq!(
            (executor.url.as_str(), executor.whereabouts),
            ("grpc://a:1", Where::Remote)
        );
        assert_eq!(
            (
                executor.properties["pool"].as_str(),
                executor.properties["n"].as_str()
            ),
            ("lab", "2")
        );
        assert_eq!(
            (executor.options["token"].as_str(), executor.queue),
            ("secret", Duration::from_secs(5))
        );
        assert_eq!(executor.limit, Some(Duration::from_secs(7200)));
        let silent = with("[executor]\nurl = 'grpc://a:1'", &[], None)
            .unwrap()
            .unwrap();
        assert_eq!(
            silent.limit, None,
            "what a server allows by itself, more may be refused"
        );
        let variables = [("ORCH_EXECUTOR", "grpc://b:1")];
        assert_eq!(
            with(text, &variables, None).unwrap().unwrap().url,
            "grpc://b:1"
        );
        assert_eq!(
            with(text, &variables, Some("grpc://c:1"))
                .unwrap()
                .unwrap()
                .url,
            "grpc://c:1"
        );
        assert!(with(text, &variables, Some("")).unwrap().is_none());
    }

    #[test]
    fn an_error_names_what_is_known() {
        let bad = |text: &str| with(text, &[], None).unwrap_err();
        assert!(bad("[executor]\nwhere = 'auto'").contains("no `url`"));
        assert!(bad("[executor]\nurl = 'x'\nwhere = 'elsewhere'").contains("`remote`"));
        assert!(bad("[executor]\nurl = 'x'\ndownload = 'some'").contains("`toplevel`"));
        assert!(bad("[executor]\nurl = 'x'\nslots = 0").contains("between 1 and 1024"));
        assert!(
            bad("[executor]\nurl = 'x'\nproperties = {a = '{devise}'}")
                .contains("hint: `{device}`")
        );
        assert!(bad("[executor]\nurl = 'x'\nenv = {a = []}").contains("variable `a`"));
    }
}
