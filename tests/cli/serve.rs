//! `orch serve`: what the store holds, live, read-only, for this machine alone.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Child;
use std::time::Duration;

use crate::onnx::{RIGHT, expected};
use crate::page;
use crate::ready_onnx::sandbox;
use crate::support::{Sandbox, env_dir, eventually, signal};

pub(super) const RUN: [&str; 2] = ["run", "specs/all.yaml"];

/// The process, and its port.
pub(super) fn serving(sandbox: &Sandbox) -> (Child, u16) {
    let mut child = sandbox.spawn(["serve", "specs/all.yaml", "--port", "0"]);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port = line.split(['/', ':']).find_map(|part| part.parse().ok());
    (child, port.unwrap_or_else(|| panic!("no address: {line}")))
}

/// Head and body of an answer.
fn ask(port: u16, method: &str, path: &str, host: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    // A browser hangs up when it has its answer.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(port: u16, path: &str) -> String {
    let (head, body) = ask(port, "GET", path, &format!("127.0.0.1:{port}"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{path}: {head}");
    body
}

#[test]
fn it_follows_runs_and_specs_and_ends_on_a_signal() {
    let sandbox = sandbox(RIGHT);
    let (child, port) = serving(&sandbox);
    let names = |body: &str| page::data(body)["details"].to_string();
    assert!(names(&get(port, "/")).contains("\"word\":\"incomplete\""));
    let first = get(port, "/version");
    assert_eq!(get(port, "/version"), first, "nothing changed");
    // A page compares with what it is itself: what was made until it asks for the first time is another one.
    assert!(get(port, "/").contains(&format!("const own = '{first}';")));
    sandbox.run(RUN).success();
    eventually("the page shows the run", || {
        names(&get(port, "/")).contains("\"word\":\"passed\"")
    });
    assert_ne!(get(port, "/version"), first);
    assert!(get(port, "/site/").contains("<h2>By family</h2>"));
    assert!(get(port, "/site/pairs/linear/cpu-fp32.html").contains("<span class=\"pill pass\">"));
    assert!(get(port, "/matrix.json").contains("\"cases\""));
    // The verdict changes with what the spec reads.
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox.run(RUN).code(1);
    eventually("the page shows the failure", || {
        names(&get(port, "/")).contains("NUMERICS")
    });
    // A mistake is told on the page, and so is its end.
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write(
        "specs/all.yaml",
        spec.replacen("task: regression", "task: 7", 1),
    );
    eventually("the page tells the mistake", || {
        get(port, "/").contains("<pre>specs/all.yaml has 1 error")
    });
    sandbox.write("specs/all.yaml", spec);
    eventually("the page is back", || {
        get(port, "/").contains("id=\"matrix\"")
    });
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
}

#[test]
fn pages_show_the_history_and_follow_it() {
    let sandbox = sandbox(RIGHT).env("ORCH_ENV_DIR", env_dir().display().to_string());
    sandbox.run(["setup", "duckdb"]).success();
    let measure = || {
        sandbox
            .run(["run", "specs/all.yaml", "-t", "cpu", "--rerun", "run"])
            .success()
    };
    (0..2).for_each(|_| drop(measure()));
    let (child, port) = serving(&sandbox);
    let site = || get(port, "/site/pairs/linear/cpu-fp32.html");
    let course = site();
    assert!(
        course.contains("2 executions on one machine") && course.contains("data-course='{"),
        "{course}"
    );
    let (_, table) = course.split_once("executed (UTC)").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert_eq!(table.matches("<tr").count(), 2, "{table}");
    assert!(get(port, "/site/history.js").contains("Plot"));
    // Of a case that was never executed there is nothing to show.
    assert!(
        !get(port, "/site/pairs/linear/openvino-fp32.html").contains("executions on one machine")
    );
    let details = || page::data(&get(port, "/"))["details"].to_string();
    assert!(
        details().contains("2 executions on one machine"),
        "{}",
        details()
    );
    measure();
    eventually("the report shows the third", || {
        details().contains("3 executions on one machine")
    });
    eventually("the site shows the third", || {
        site().contains("3 executions on one machine")
    });
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
}

#[test]
fn it_only_reads_and_answers_nobody_else() {
    let sandbox = sandbox(RIGHT);
    let (child, port) = serving(&sandbox);
    let own = format!("localhost:{port}");
    for method in ["POST", "PUT", "DELETE"] {
        assert!(
            ask(port, method, "/", &own).0.starts_with("HTTP/1.1 405 "),
            "{method}"
        );
    }
    for host in ["models.example.org", "127.0.0.1.example.org:80", ""] {
        assert!(
            ask(port, "GET", "/", host).0.starts_with("HTTP/1.1 403 "),
            "{host}"
        );
    }
    for path in [
        "/site/../../../etc/passwd",
        "/site/..%2f..%2fetc/passwd",
        "/etc/passwd",
        "/site/nothing.html",
    ] {
        assert!(
            ask(port, "GET", path, &own).0.starts_with("HTTP/1.1 404 "),
            "{path}"
        );
    }
    let (head, body) = ask(port, "HEAD", "/", &own);
    assert!(
        head.contains("Content-Security-Policy: default-src 'none'") && body.is_empty(),
        "{head}"
    );
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
}

/// Neither silence, nor half a request, nor an answer that nobody reads keeps others or an interrupt waiting.
#[test]
fn no_client_keeps_others_waiting() {
    let sandbox = sandbox(RIGHT);
    let (child, port) = serving(&sandbox);
    let connected = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _silent: Vec<TcpStream> = (0..20).map(|_| connected()).collect();
    let mut half = connected();
    half.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
    // It never reads the pages that it wants.
    let deaf: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connected();
            let request = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(get(port, "/matrix.json").contains("\"cases\""));
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
    drop(deaf);
}

#[test]
fn what_cannot_be_served_is_reported_at_once() {
    let sandbox = Sandbox::new().file("specs/all.yaml", "version: 1\nmodels: 7\n");
    sandbox
        .run(["serve", "specs/all.yaml", "--port", "0"])
        .code(2)
        .stderr_has("specs/all.yaml:2");
    let sandbox = self::sandbox(RIGHT);
    let (child, port) = serving(&sandbox);
    let taken = sandbox
        .run(["serve", "specs/all.yaml", "--port", &port.to_string()])
        .code(2);
    taken
        .stderr_has("failed to listen on port")
        .stderr_has("`--port 0` picks a free one");
    signal(&child, libc::SIGINT);
    sandbox.wait(child).success();
}
