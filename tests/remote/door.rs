//! A real server behind nginx, as a lab puts one on its network: encryption, clients' certificates, bearer tokens, and a limit
//! of requests.

use std::path::Path;
use std::time::Duration;

use crate::execution::{Lab, WHAT};
use crate::labels::authority;
use crate::servers::{Server, is_done_without, nginx};
use crate::support::{Ended, Sandbox, beside_load};
use crate::{RUN, SPEC, files, timed};

/// What nobody may read in an output or a store.
const TOKEN: &str = "the-right-token-which-is-a-secret";

/// A server and the door before it.
struct House {
    lab: Lab,
    door: Server,
    dir: tempfile::TempDir,
}

impl House {
    fn new(conf: [&str; 3]) -> Self {
        let lab = Lab::new();
        let dir = tempfile::tempdir().unwrap();
        authority(dir.path(), "ours");
        authority(dir.path(), "theirs");
        let door = nginx(dir.path(), lab.port, conf);
        Self { lab, door, dir }
    }

    fn options(&self, options: &[(&str, &str)]) -> String {
        let at = |value: &str| match value.starts_with("ours.") || value.starts_with("theirs.") {
            true => self.dir.path().join(value).display().to_string(),
            false => value.to_owned(),
        };
        let options = options
            .iter()
            .map(|(name, value)| format!("{name} = '{}'", at(value)));
        options.collect::<Vec<_>>().join(", ")
    }

    /// A checkout with a store of its own, whose `section` of orch.toml names this server.
    fn checkout(&self, section: &str, more: &str, options: &[(&str, &str)]) -> Sandbox {
        let port = self.door.port;
        let options = self.options(options);
        let toml = format!(
            "[{section}]\nurl = 'grpcs://127.0.0.1:{port}'\n{more}\noptions = {{{options}}}\n"
        );
        Sandbox::new()
            .file("spec.yaml", SPEC)
            .file("orch.toml", toml)
    }

    fn executes(&self, options: &[(&str, &str)]) -> Ended {
        self.checkout(
            "executor",
            "where = 'remote'\ntimeout = 5\nretries = 1\nqueue = 2",
            options,
        )
        .run(RUN)
    }
}

#[test]
fn a_token_opens_the_door_and_what_is_refused_is_refused_at_once_and_shows_no_token() {
    if is_done_without(WHAT) {
        return;
    }
    let house = House::new([
        "",
        "",
        &format!("if ($http_authorization != 'Bearer {TOKEN}') {{ return 401; }}"),
    ]);
    let ca = ("ca", "ours.ca");
    house
        .executes(&[ca, ("token", TOKEN)])
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("warning")
        .stderr_lacks(TOKEN);
    for options in [&[ca][..], &[ca, ("token", "another-secret")]] {
        let (ended, took) = timed(|| house.executes(options));
        ended
            .code(1)
            .stderr_has("a proxy before the server answered 401 Unauthorized")
            .stderr_lacks("another-secret");
        assert!(took < beside_load(Duration::from_secs(10)), "{took:?}");
    }
    // The file is read for each request: it may be renewed while orch runs.
    let file = house.dir.path().join("token");
    let by_file = ("token_file", file.to_str().unwrap());
    std::fs::write(&file, "expired").unwrap();
    house.executes(&[ca, by_file]).code(1);
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    house.executes(&[ca, by_file]).success();

    // As a store: what is refused costs no result, and is said.
    let shares = |token: &str| {
        let sandbox = house.checkout(
            "remote",
            "timeout = 5\nretries = 1",
            &[ca, ("token", token)],
        );
        let ended = sandbox.run(RUN).success();
        let tells =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains(token);
        assert!(
            !files(&sandbox.path("cache")).iter().any(|path| tells(path)),
            "the store tells the token"
        );
        ended
    };
    shares(TOKEN)
        .summary([("executed", 2)])
        .stderr_has("2 uploads")
        .stderr_lacks("warning");
    shares(TOKEN)
        .summary([("executed", 0), ("fetched", 2)])
        .stderr_lacks("warning");
    shares("another-secret")
        .summary([("executed", 2)])
        .stderr_has("warning remote: ")
        .stderr_lacks("another-secret");
}

#[test]
fn a_client_shows_its_certificate_and_looks_at_the_server_s() {
    if is_done_without(WHAT) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    authority(dir.path(), "clients");
    let of = |end: &str| {
        dir.path()
            .join(format!("clients.{end}"))
            .display()
            .to_string()
    };
    let conf = format!("ssl_client_certificate {}; ssl_verify_client on;", of("ca"));
    let house = House::new(["", &conf, ""]);
    let own = of("cert");
    let key = of("key");
    let cert = ("cert", own.as_str());
    let key = ("key", key.as_str());
    house
        .executes(&[("ca", "ours.ca"), cert, key])
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("warning");
    house.executes(&[("ca", "ours.ca")]).code(1);
    house
        .executes(&[
            ("ca", "ours.ca"),
            ("cert", "theirs.cert"),
            ("key", "theirs.key"),
        ])
        .code(1);
    house
        .executes(&[("ca", "theirs.ca"), cert, key])
        .code(1)
        .stderr_has("certificate");
}

/// A quota that is used up for a while is waited for.
#[test]
fn a_client_with_too_many_requests_gets_a_refusal_and_retries() {
    if is_done_without(WHAT) {
        return;
    }
    let zone = "limit_req_zone $binary_remote_addr zone=all:1m rate=1r/s; limit_req_status 429;";
    let house = House::new([zone, "", "limit_req zone=all burst=4 nodelay;"]);
    let more = "where = 'remote'\ntimeout = 60\nretries = 9\nqueue = 60";
    let ended = house
        .checkout("executor", more, &[("ca", "ours.ca")])
        .run(RUN);
    ended.success().summary([("executed", 2)]);
    let refused = std::fs::read_to_string(house.dir.path().join("error.log")).unwrap_or_default();
    assert!(
        refused.contains("limiting requests"),
        "nothing was refused: {refused}"
    );
    assert!(house.lab.blobs().iter().any(|path| Path::exists(path)));
}
