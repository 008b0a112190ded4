//! The URL of a remote: which service it means, and that service's settings. Opens no connection.

use std::collections::BTreeMap;

use crate::base::text::without_secrets;
use crate::base::variable;
use crate::config::{Mode, RemoteConfig};
use crate::reapi;

/// A remote, understood.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// The service's name in opendal.
    pub(super) scheme: &'static str,
    pub(super) settings: BTreeMap<String, String>,
    /// The address as it may be shown: without the user's name and password.
    pub(super) shown: String,
    pub(super) writes: bool,
    /// The address of a server, if it speaks the Remote Execution API, which has nothing of a service's.
    pub(super) server: Option<reapi::Address>,
}

const HINT: &str = "s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix, webdav://host/path, \
                    webdav+http://host/path, https://host/path (read-only), file:///path, grpc://host:8980, grpcs://host:443/instance";

impl Address {
    /// `known` gives the names of a service's settings.
    pub(super) fn of(
        config: &RemoteConfig,
        known: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self, String> {
        let bad = |why: &str| {
            let url = shown(&config.url);
            Err(format!("the remote `{url}` {why}\n  hint: {HINT}"))
        };
        if reapi::Address::is_meant_by(&config.url) {
            let server = reapi::Address::of("the remote", &config.url, &config.options)?;
            let settings = BTreeMap::new();
            let shown = server.shown.clone();
            let writes = config.mode != Some(Mode::ReadOnly);
            return Ok(Self {
                scheme: "grpc",
                settings,
                shown,
                writes,
                server: Some(server),
            });
        }
        let Some((word, rest)) = config.url.split_once("://") else {
            return bad("is no URL");
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let root = format!("/{}", path.trim_end_matches('/'));
        let mut settings = config.options.clone();
        let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
        set("root", root.clone());
        let (user, server) = host
            .rsplit_once('@')
            .map_or((None, host), |(user, server)| (Some(user), server));
        let scheme = match word {
            "s3" | "gs" | "azblob" => {
                set(
                    if word == "azblob" {
                        "container"
                    } else {
                        "bucket"
                    },
                    host.to_owned(),
                );
                match word {
                    "s3" => "s3",
                    "gs" => "gcs",
                    _ => "azblob",
                }
            }
            "webdav" | "webdav+http" | "http" | "https" => {
                let protocol = if word == "http" || word == "webdav+http" {
                    "http"
                } else {
                    "https"
                };
                set("endpoint", format!("{protocol}://{server}"));
                if let Some((name, password)) =
                    user.map(|user| user.split_once(':').unwrap_or((user, "")))
                {
                    set("username", name.to_owned());
                    set("password", password.to_owned());
                }
                if word.starts_with("webdav") {
                    "webdav"
                } else {
                    "http"
                }
            }
            "file" if host.is_empty() && !path.is_empty() => {
                // Written beside and renamed, so that nobody reads half a file.
                set("atomic_write_dir", format!("{root}/tmp"));
                "fs"
            }
            "file" => return bad("is no absolute path"),
            _ => return bad("is of no known kind"),
        };
        if scheme != "fs" && server.is_empty() {
            let has_bucket = matches!(scheme, "s3" | "gcs");
            return bad(if has_bucket {
                "names no bucket"
            } else {
                "names no host or container"
            });
        }
        let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .any(|name| variable::os(name).is_some());
        if scheme == "s3" && settings.contains_key("endpoint") && !has_region {
            // Other makers' servers do not look at it, and the signature needs one.
            settings
                .entry("region".to_owned())
                .or_insert_with(|| "us-east-1".to_owned());
        }
        if scheme == "azblob" && !settings.contains_key("endpoint") {
            // opendal reads the account's name off the endpoint, and not the other way round.
            let named = || {
                ["AZBLOB_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_NAME"]
                    .iter()
                    .find_map(|name| variable::text(name))
            };
            let Some(account) = settings.get("account_name").cloned().or_else(named) else {
                let hint = "options = {account_name = \"…\"}, or AZURE_STORAGE_ACCOUNT_NAME";
                return Err(format!(
                    "the remote `{}` names no account\n  hint: {hint}",
                    shown(&config.url)
                ));
            };
            settings.insert(
                "endpoint".to_owned(),
                format!("https://{account}.blob.core.windows.net"),
            );
        }
        let names = known(scheme);
        if let Some(name) = config.options.keys().find(|name| !names.contains(name)) {
            let near = crate::base::suggest::nearest(name, names.iter().map(String::as_str));
            let hint = near.map_or_else(
                || format!("it knows {}", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(format!(
                "the remote has no option `{name}` for {word}\n  hint: {hint}"
            ));
        }
        let writes = match (scheme, config.mode) {
            ("http", Some(Mode::ReadWrite)) => {
                return bad("can only be read; `mode = \"read-write\"` is for others");
            }
            ("http", _) | (_, Some(Mode::ReadOnly)) => false,
            _ => true,
        };
        if !writes {
            settings.remove("atomic_write_dir");
        }
        Ok(Self {
            scheme,
            settings,
            shown: shown(&config.url),
            writes,
            server: None,
        })
    }

    /// The source of the service's credentials, for those who have given none.
    pub(super) fn credentials(&self) -> &'static str {
        match self.scheme {
            "s3" => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the machine's role",
            "gcs" => "GOOGLE_APPLICATION_CREDENTIALS, the option `token`, or the machine's account",
            "azblob" => {
                "AZURE_STORAGE_ACCOUNT_KEY with AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_SAS_TOKEN, or the machine's identity"
            }
            _ => "the options `username` and `password`, or `token`",
        }
    }
}

/// What is no URL may be one that lacks its beginning.
fn shown(url: &str) -> String {
    let url = if url.contains("://") {
        url
    } else {
        url.rsplit_once('@').map_or(url, |(_, place)| place)
    };
    without_secrets(url).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Download;
    use std::time::Duration;

    fn of(url: &str, mode: Option<Mode>, options: &[(&str, &str)]) -> Result<Address, String> {
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let timeout = Duration::from_secs(1);
        let wait = Duration::from_secs(1);
        let config = RemoteConfig {
            url: url.into(),
            mode,
            options,
            timeout,
            retries: 0,
            concurrency: 1,
            wait,
            download: Download::default(),
            key: None,
        };
        Address::of(&config, |_| {
            ["endpoint", "region", "account_name"]
                .map(String::from)
                .into()
        })
    }

    #[test]
    fn a_url_becomes_a_service_with_its_settings() {
        let s3 = of("s3://bucket/a/b/", None, &[("region", "x")]).unwrap();
        assert_eq!((s3.scheme, s3.writes), ("s3", true));
        assert_eq!(
            (s3.settings["bucket"].as_str(), s3.settings["root"].as_str()),
            ("bucket", "/a/b")
        );
        assert_eq!(of("gs://bucket", None, &[]).unwrap().scheme, "gcs");
        let azure = of("azblob://c/x", None, &[("account_name", "me")]).unwrap();
        assert_eq!(azure.settings["container"], "c");
        assert_eq!(
            azure.settings["endpoint"],
            "https://me.blob.core.windows.net"
        );
        let own = of(
            "azblob://c/x",
            None,
            &[("account_name", "me"), ("endpoint", "http://host/me")],
        )
        .unwrap();
        assert_eq!(own.settings["endpoint"], "http://host/me");
        let dav = of("webdav+http://me:secret@host:8080/dav", None, &[]).unwrap();
        assert_eq!(
            (dav.scheme, dav.settings["endpoint"].as_str()),
            ("webdav", "http://host:8080")
        );
        assert_eq!(
            (
                dav.settings["username"].as_str(),
                dav.settings["password"].as_str()
            ),
            ("me", "secret")
        );
        assert_eq!(
            dav.shown, "webdav+http://host:8080/dav",
            "a password is not shown"
        );
        assert_eq!(
            of("https://me:secret@host/x?sig=secret", None, &[])
                .unwrap()
                .shown,
            "https://host/x?…"
        );
        assert!(
            !of("me:secret@host/x", None, &[])
                .unwrap_err()
                .contains("secret")
        );
        assert_eq!(
            of("webdav://host", None, &[]).unwrap().settings["endpoint"],
            "https://host"
        );
        let file = of("file:///a/b", None, &[]).unwrap();
        assert_eq!(
            (file.scheme, file.settings["root"].as_str(), file.writes),
            ("fs", "/a/b", true)
        );
    }

    #[test]
    fn plain_http_is_only_read() {
        assert!(!of("https://host/x", None, &[]).unwrap().writes);
        assert!(!of("s3://b", Some(Mode::ReadOnly), &[]).unwrap().writes);
        assert!(
            of("https://host/x", Some(Mode::ReadWrite), &[])
                .unwrap_err()
                .contains("only be read")
        );
    }

    #[test]
    fn what_is_no_remote_is_reported_with_what_would_be_one() {
        for url in [
            "bucket",
            "ftp://host",
            "s3://",
            "file://host/x",
            "file://",
            "webdav://",
        ] {
            assert!(
                of(url, None, &[]).unwrap_err().contains("hint: s3://"),
                "{url}"
            );
        }
        assert!(
            of("s3://b", None, &[("endpont", "x")])
                .unwrap_err()
                .contains("did you mean `endpoint`?")
        );
    }
}
