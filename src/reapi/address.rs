//! `grpc://host:port/instance` and its options: where a server is, and who the client is. Opens no connection.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::ensure;
use crate::base::text::without_secrets;

/// The names of what may be set besides the URL.
pub const OPTIONS: &[&str] = &["ca", "cert", "key", "name", "token", "token_file"];

#[derive(Debug, Clone)]
pub struct Address {
    /// `http://host:port`, as the transport wants it.
    pub(super) uri: String,
    /// The name of one of a server's stores; often empty.
    pub(super) instance: String,
    pub(super) is_encrypted: bool,
    /// PEM files: the authority that signed the server's certificate, and the client's own certificate with its key.
    pub(super) ca: Option<PathBuf>,
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate, where it is not the host's.
    pub(super) name: Option<String>,
    pub(super) token: Option<Token>,
    /// The address as it may be shown.
    pub shown: String,
}

#[derive(Clone)]
pub(super) enum Token {
    Text(String),
    /// Read for each request, because tokens are renewed.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Address {
    /// Whether a URL means such a server.
    pub fn is_meant_by(url: &str) -> bool {
        url.starts_with("grpc://") || url.starts_with("grpcs://")
    }

    /// `what` is what the URL is of: `the remote`.
    pub fn of(what: &str, url: &str, options: &BTreeMap<String, String>) -> Result<Self, String> {
        let shown = without_secrets(url).into_owned();
        let bad = |why: &str| {
            Err(format!(
                "{what} `{shown}` {why}\n  hint: grpc://host:8980, or grpcs://host:443/instance"
            ))
        };
        let Some((word, rest)) = url.split_once("://") else {
            return bad("is no URL");
        };
        let is_encrypted = match word {
            "grpc" => false,
            "grpcs" => true,
            _ => return bad("is of no known kind"),
        };
        let (server, instance) = rest.split_once('/').unwrap_or((rest, ""));
        if server.contains('@') {
            return bad("names a user; the option `token` or `token_file` says who you are");
        }
        match server.rsplit_once(':') {
            Some(("", _)) => return bad("names no host"),
            Some((_, port)) if port.parse::<u16>().is_ok() => {}
            _ => return bad("names no port"),
        }
        if let Some(name) = options
            .keys()
            .find(|name| !OPTIONS.contains(&name.as_str()))
        {
            let hint = crate::base::suggest::hint(name, OPTIONS.iter().copied());
            return Err(format!(
                "{what} has no option `{name}` for {word}\n  {hint}"
            ));
        }
        let get = |name: &str| options.get(name).filter(|value| !value.is_empty());
        let file = |name: &str| get(name).map(PathBuf::from);
        let one = || {
            format!(
                "{what} `{shown}` has only one of `cert` and `key`\n  hint: a certificate needs its key"
            )
        };
        ensure(get("cert").is_some() == get("key").is_some(), one)?;
        let identity = file("cert").zip(file("key"));
        let is_plain = ["cert", "ca", "name"]
            .iter()
            .all(|name| get(name).is_none());
        let open =
            || format!("{what} `{shown}` has a certificate but no encryption\n  hint: grpcs://");
        ensure(is_encrypted || is_plain, open)?;
        let token = get("token").cloned().map(Token::Text);
        let both = || format!("{what} `{shown}` has both `token` and `token_file`");
        ensure(token.is_none() || get("token_file").is_none(), both)?;
        let token = token.or_else(|| file("token_file").map(Token::File));
        Ok(Self {
            uri: format!("{}://{server}", if is_encrypted { "https" } else { "http" }),
            instance: instance.trim_matches('/').to_owned(),
            is_encrypted,
            ca: file("ca"),
            identity,
            name: get("name").cloned(),
            token,
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, options: &[(&str, &str)]) -> Result<Address, String> {
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Address::of("the remote", url, &options)
    }

    #[test]
    fn a_url_names_a_server_and_one_of_its_stores() {
        let plain = of("grpc://host:8980", &[]).unwrap();
        assert_eq!(
            (plain.uri.as_str(), plain.instance.as_str()),
            ("http://host:8980", "")
        );
        let named = of(
            "grpcs://[::1]:443/main/",
            &[("ca", "ca.pem"), ("token", "secret")],
        )
        .unwrap();
        assert_eq!(
            (named.uri.as_str(), named.instance.as_str()),
            ("https://[::1]:443", "main")
        );
        assert!(!format!("{named:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_server_is_reported_with_what_would_be_one() {
        for url in [
            "host:1",
            "http://host:1",
            "grpc://host",
            "grpc://:1",
            "grpc://host:x",
            "grpc://me:word@host:1",
        ] {
            let error = of(url, &[]).unwrap_err();
            assert!(
                error.contains("hint: grpc://host:8980") && !error.contains("word"),
                "{error}"
            );
        }
        assert!(
            of("grpc://h:1", &[("tokn", "x")])
                .unwrap_err()
                .contains("token")
        );
        assert!(
            of("grpcs://h:1", &[("cert", "x")])
                .unwrap_err()
                .contains("needs its key")
        );
        assert!(
            of("grpc://h:1", &[("ca", "x")])
                .unwrap_err()
                .contains("grpcs://")
        );
        assert!(
            of("grpc://h:1", &[("token", "x"), ("token_file", "y")])
                .unwrap_err()
                .contains("both")
        );
    }
}
