//! `orch.toml` and the variables that override it: what belongs to a checkout or a machine and not to a spec. The only
//! home of TOML; knows nothing of what its values are used for.

mod accepted;
mod executor;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::base::Secret;
use crate::base::fs::read_text;
use crate::base::words::words;

pub use accepted::{
    AcceptedRow, FILE as ACCEPTED_FILE, accepted_rows, accepted_text, with_accepted,
};
pub use executor::{DEVICE_PLACE, Download, ExecutorConfig, ExecutorOverride, Where};

pub const FILE: &str = "orch.toml";
const OPTION: &str = "ORCH_REMOTE_OPTION_";

/// `[remote]`: where results are shared, and how patiently.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// `s3://bucket/prefix`, `file:///path`, …
    pub url: String,
    /// None means what the kind of remote allows.
    pub mode: Option<Mode>,
    /// Settings of the service, by the names that opendal gives them.
    pub options: BTreeMap<String, String>,
    /// The time within which an answer must begin, retries included.
    pub timeout: Duration,
    /// How often a request is repeated after an error that may pass.
    pub retries: u32,
    /// Requests at a time.
    pub concurrency: usize,
    /// How long the end of a run waits for uploads.
    pub wait: Duration,
    /// The large trees of results that are fetched although nothing here reads them.
    pub download: Download,
    /// The key with which results are signed; those of others are believed only if they are signed with it.
    pub key: Option<Secret>,
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Mode { "read-write" => ReadWrite, "read-only" => ReadOnly }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    remote: Option<Section>,
    executor: Option<executor::Section>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    url: Option<String>,
    mode: Option<Mode>,
    #[serde(default)]
    options: BTreeMap<String, toml::Value>,
    timeout: Option<f64>,
    retries: Option<u32>,
    concurrency: Option<usize>,
    wait: Option<f64>,
    download: Option<Download>,
}

/// The remote that `orch.toml` in `dir` and the variables name, if they name one.
pub fn remote(
    dir: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Option<RemoteConfig>, String> {
    parse(&read(dir)?, variables)
}

/// The place of remote execution, if `orch.toml` in `dir`, the variables or the command line (`given`) name one.
pub fn executor(
    dir: &Path,
    variables: impl Iterator<Item = (String, String)>,
    given: &ExecutorOverride,
) -> Result<Option<ExecutorConfig>, String> {
    executor::of(file(&read(dir)?)?.executor, variables, given)
}

fn read(dir: &Path) -> Result<String, String> {
    match read_text(&dir.join(FILE), 1 << 20) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(format!("failed to read {FILE}: {e}")),
    }
}

fn file(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|e| format!("{FILE} cannot be read\n{}", message(text, &e)))
}

fn parse(
    text: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Option<RemoteConfig>, String> {
    let section = file(text)?.remote;
    let named = section.is_some();
    let section = section.unwrap_or_default();
    let mut options = texts("option", "remote", section.options)?;
    let mut url = section.url;
    let mut mode = section.mode;
    let mut key = None;
    for (name, value) in variables {
        match name.as_str() {
            "ORCH_REMOTE" => url = Some(value),
            "ORCH_REMOTE_MODE" => {
                let bad = || {
                    format!(
                        "ORCH_REMOTE_MODE is `{value}`\n  hint: say `read-write` or `read-only`"
                    )
                };
                mode = Some(Mode::named(&value).ok_or_else(bad)?);
            }
            "ORCH_REMOTE_KEY" if !value.is_empty() => {
                key = Some(Secret::of("orch 2 results of a remote store", &value))
            }
            _ => {
                if let Some(option) = name.strip_prefix(OPTION) {
                    options.insert(option.to_lowercase(), value);
                }
            }
        }
    }
    let Some(url) = address("remote", url, named)? else {
        return Ok(None);
    };
    Ok(Some(RemoteConfig {
        url,
        mode,
        options,
        timeout: seconds("timeout", section.timeout.unwrap_or(10.0))?,
        retries: section.retries.unwrap_or(2),
        concurrency: up_to(256, "concurrency", section.concurrency.unwrap_or(16))?,
        wait: seconds("wait", section.wait.unwrap_or(300.0))?,
        download: section.download.unwrap_or(Download::Toplevel),
        key,
    }))
}

/// The server of a section. A section that is there (`is_named`) must name one; an empty name switches it off.
fn address(section: &str, url: Option<String>, is_named: bool) -> Result<Option<String>, String> {
    match url {
        None if is_named => Err(format!("{FILE}: [{section}] has no `url`")),
        url => Ok(url.filter(|url| !url.is_empty())),
    }
}

fn up_to<N: PartialOrd + From<bool> + Display>(most: N, name: &str, count: N) -> Result<N, String> {
    let is_allowed = N::from(true) <= count && count <= most;
    if is_allowed {
        Ok(count)
    } else {
        Err(format!(
            "{FILE}: `{name}` is {count}\n  hint: between 1 and {most}"
        ))
    }
}

/// A table of plain values. `what` is what each of them is, and `of` the section.
fn texts(
    what: &str,
    of: &str,
    table: BTreeMap<String, toml::Value>,
) -> Result<BTreeMap<String, String>, String> {
    let text = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(text) => Ok((name, text)),
        toml::Value::Integer(_) | toml::Value::Boolean(_) | toml::Value::Float(_) => {
            Ok((name, value.to_string()))
        }
        _ => Err(format!(
            "{FILE}: {what} `{name}` of the {of} is no text, number or truth value"
        )),
    };
    table.into_iter().map(text).collect()
}

/// Place and message. The error's own form shows the line, and a password may stand there.
fn message(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    let line = before.split('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    format!(
        "line {line}, column {column}: {}",
        error.message().trim_end()
    )
}

fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    let allowed = 0.001..=86_400.0;
    let bad = || format!("{FILE}: `{name}` is {value}\n  hint: seconds, at most a day");
    if allowed.contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, variables: &[(&str, &str)]) -> Result<Option<RemoteConfig>, String> {
        parse(
            text,
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn the_file_names_a_remote_and_variables_overrule_it() {
        assert!(with("", &[]).unwrap().is_none());
        let text = "[remote]\nurl = 's3://b/p'\nmode = 'read-only'\noptions = {region = 'x', port = 9, on = true}";
        let remote = with(
            text,
            &[("ORCH_REMOTE_OPTION_REGION", "y"), ("ORCH_REMOTE_KEY", "s")],
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            (remote.url.as_str(), remote.mode),
            ("s3://b/p", Some(Mode::ReadOnly))
        );
        assert_eq!(remote.options["region"], "y");
        assert_eq!(
            (
                remote.options["port"].as_str(),
                remote.options["on"].as_str()
            ),
            ("9", "true")
        );
        assert!(remote.key.is_some());
        let other = with(
            text,
            &[
                ("ORCH_REMOTE", "file:///x"),
                ("ORCH_REMOTE_MODE", "read-write"),
            ],
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            (other.url.as_str(), other.mode),
            ("file:///x", Some(Mode::ReadWrite))
        );
        assert!(with(text, &[("ORCH_REMOTE", "")]).unwrap().is_none());
        assert!(with("", &[("ORCH_REMOTE", "file:///x")]).unwrap().is_some());
    }

    #[test]
    fn an_error_names_its_place_and_what_is_known() {
        let bad = |text: &str| with(text, &[]).unwrap_err();
        let typo = bad("[remote]\nurl = 'x'\nmodus = 'read-only'");
        assert!(
            typo.contains("line 3") && typo.contains("`modus`") && typo.contains("`mode`"),
            "{typo}"
        );
        let value = bad("[remote]\nurl = 'x'\nmode = 'sometimes'");
        assert!(
            value.contains("line 3, column 8") && value.contains("`read-only`"),
            "{value}"
        );
        let torn = bad("[remote]\nurl = 's3://b'\noptions = {password = 'hunter2}");
        assert!(
            torn.contains("line 3") && !torn.contains("hunter2"),
            "{torn}"
        );
        assert!(bad("[remot]\n").contains("`remote`"));
        assert!(bad("[remote]\nmode = 'read-only'").contains("no `url`"));
        assert!(bad("[remote]\nurl = 'x'\ntimeout = 0").contains("seconds"));
        assert!(bad("[remote]\nurl = 'x'\nconcurrency = 0").contains("between 1 and 256"));
        assert!(bad("[remote]\nurl = 'x'\noptions = {a = []}").contains("`a`"));
        assert!(
            with("", &[("ORCH_REMOTE_MODE", "rw")])
                .unwrap_err()
                .contains("read-write")
        );
    }
}
