//! Real servers on this machine, each on a port of its own and gone with the test. Knows nothing of orch.
//!
//! A server that cannot be had fails the test, unless ORCH_TEST_NO_SERVERS is set: then the test says that it checked
//! nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::installed;

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// As a machine is lost.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked, it ends its own processes too.
        crate::support::signal(&self.child, libc::SIGTERM);
        let start = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if start.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Whether servers are to be done without here; said on stderr, so that nobody takes it for a test that passed.
#[allow(clippy::print_stderr, reason = "what is not tested is said")]
pub(crate) fn is_done_without(what: &str) -> bool {
    let off = std::env::var_os("ORCH_TEST_NO_SERVERS").is_some();
    if off {
        eprintln!("NOT TESTED: {what}: ORCH_TEST_NO_SERVERS is set");
    }
    off
}

fn start(mut command: Command, port: u16) -> Server {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    started(command, port)
}

/// It answers at this port.
pub(crate) fn started(mut command: Command, port: u16) -> Server {
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|e| panic!("{command:?} did not start: {e}"));
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{command:?} ended before it answered: {status}");
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{command:?} does not answer"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Server { child, port }
}

/// An S3 server (moto) with one bucket.
pub(crate) fn s3(bucket: &str) -> Server {
    let python = installed::moto();
    let port = free_port();
    let mut command = Command::new(python);
    command.args([
        "-m",
        "moto.server",
        "-H",
        "127.0.0.1",
        "-p",
        &port.to_string(),
    ]);
    let server = start(command, port);
    let answer = request(
        port,
        &format!("PUT /{bucket} HTTP/1.1\r\nContent-Length: 0"),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server
}

/// The account of every Azurite, and what may be done with it: signatures by its key, which its manual prints.
pub(crate) const AZURE: &str = "devstoreaccount1";
/// All that orch does, and making a container.
pub(crate) const AZURE_WRITES: &str = "sv=2020-08-04&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp&\
                                       sig=lP4358Cnz1iq8XYqBFoRARKlOuXCuZxE4Uf0d7qFrYE%3D";
/// Reading and listing alone.
pub(crate) const AZURE_READS: &str = "sv=2020-08-04&ss=b&srt=sco&sp=rl&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp&\
                                      sig=qi5Q4Of1Zau4CLIJ7Kxtt9pIAzOjWpUTj9HyhZkw3Tw%3D";

/// An Azure Blob server (Azurite, Microsoft's own) with one container.
pub(crate) fn azure(container: &str) -> Server {
    let port = free_port();
    let mut command = installed::azurite();
    command.args([
        "--blobPort",
        &port.to_string(),
        "--inMemoryPersistence",
        "--disableTelemetry",
        "--silent",
    ]);
    let server = start(command, port);
    let path = format!("/{AZURE}/{container}?restype=container&{AZURE_WRITES}");
    let answer = request(port, &format!("PUT {path} HTTP/1.1\r\nContent-Length: 0"));
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    server
}

/// A server that speaks Google's JSON interface (fake-gcs-server) and keeps its objects below `dir`, with one bucket.
pub(crate) fn gcs(dir: &Path, bucket: &str) -> Server {
    let port = free_port();
    let mut command = Command::new(installed::fake_gcs_server());
    command
        .args([
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            &port.to_string(),
            "-filesystem-root",
        ])
        .arg(dir);
    let server = start(command, port);
    let name = format!("{{\"name\": \"{bucket}\"}}");
    let head = "POST /storage/v1/b?project=any HTTP/1.1\r\nContent-Type: application/json";
    let answer = send(
        port,
        &format!("{head}\r\nContent-Length: {}", name.len()),
        &name,
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server
}

/// A server of the Remote Execution API (buildbox-casd) that keeps its blobs below `dir`, with `more` arguments.
pub(crate) fn casd(dir: &Path, port: u16, more: &[&str]) -> Server {
    let mut command = Command::new(installed::buildbox().join("buildbox-casd"));
    command
        .args(["--bind", &format!("127.0.0.1:{port}")])
        .args(more)
        .arg(dir);
    start(command, port)
}

/// buildbox-casd as a server that executes, `jobs` steps at once: by its own buildbox-run, without bubblewrap's sandbox.
pub(crate) fn casd_that_executes(dir: &Path, port: u16, jobs: u32) -> Server {
    let bin = dir.join("bin");
    let cache = dir.join("cache");
    fs::create_dir_all(&bin).unwrap();
    let bwrap = bin.join("bwrap");
    fs::write(
        &bwrap,
        concat!("#!/usr/bin/env python3\n", include_str!("bwrap.py")),
    )
    .unwrap();
    fs::set_permissions(&bwrap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let buildbox = installed::buildbox();
    let mut command = Command::new(buildbox.join("buildbox-casd"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command.args([
        "--bind",
        &format!("127.0.0.1:{port}"),
        "--jobs",
        &jobs.to_string(),
        "--buildbox-run",
    ]);
    command.arg(buildbox.join("buildbox-run")).arg(cache);
    start(command, port)
}

const APACHE: &str = "/usr/sbin/apache2";

/// A WebDAV server (Apache's mod_dav) that serves `dir` to the user `me` with the password `word`.
pub(crate) fn webdav(dir: &Path, port: u16) -> Server {
    let hint = "Debian: apt-get install --no-install-recommends apache2-bin; or set ORCH_TEST_NO_SERVERS=1 to go without";
    assert!(
        Path::new(APACHE).exists(),
        "{APACHE} is not installed\n{hint}"
    );
    let data = dir.join("data");
    fs::create_dir_all(&data).unwrap();
    // Started by root it works as another user.
    for path in [dir, &data] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    // {SHA} of `word`.
    fs::write(dir.join("users"), "me:{SHA}PLzZCtxLGSqHpiWFC38jHK3fDrM=\n").unwrap();
    let modules = [
        "mpm_event",
        "authn_core",
        "authn_file",
        "authz_core",
        "authz_user",
        "auth_basic",
        "dav",
        "dav_fs",
    ];
    let load =
        |name: &&str| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
    let mut text: String = modules.iter().map(load).collect();
    let root = dir.display();
    text.push_str(&format!(
        "ServerRoot {root}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {root}/pid\nErrorLog {root}/error.log\n\
         User nobody\nGroup nogroup\nDocumentRoot {root}/data\nDavLockDB {root}/data/.lock\n<Directory {root}/data>\nDav On\n\
         AuthType Basic\nAuthName x\nAuthUserFile {root}/users\nRequire valid-user\n</Directory>\n"
    ));
    fs::write(dir.join("conf"), text).unwrap();
    let mut command = Command::new(APACHE);
    command.arg("-f").arg(dir.join("conf")).arg("-DFOREGROUND");
    start(command, port)
}

const NGINX: &str = "/usr/sbin/nginx";

/// nginx in front of a server that speaks gRPC, with TLS by `ours.cert` and `ours.key` of `dir`. `server` and `location` are
/// further lines of its configuration there, `http` above both.
pub(crate) fn nginx(dir: &Path, behind: u16, [http, server, location]: [&str; 3]) -> Server {
    let hint = "Debian: apt-get install --no-install-recommends nginx-light; or set ORCH_TEST_NO_SERVERS=1 to go without";
    assert!(
        Path::new(NGINX).exists(),
        "{NGINX} is not installed\n{hint}"
    );
    let port = free_port();
    let at = dir.display();
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let text = format!(
        "{user} daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\nevents {{}}\nhttp {{\n\
         access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; client_max_body_size 0;\n{http}\n\
         server {{\nlisten 127.0.0.1:{port} ssl http2; ssl_certificate {at}/ours.cert; ssl_certificate_key {at}/ours.key;\n\
         {server}\nlocation / {{ {location} grpc_pass grpc://127.0.0.1:{behind}; grpc_read_timeout 600s; }}\n}}\n}}\n"
    );
    fs::write(dir.join("conf"), text).unwrap();
    let mut command = Command::new(NGINX);
    command
        .arg("-e")
        .arg(dir.join("error.log"))
        .arg("-c")
        .arg(dir.join("conf"));
    start(command, port)
}

/// One request, and all that is answered.
pub(crate) fn request(port: u16, head: &str) -> String {
    send(port, head, "")
}

fn send(port: u16, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    write!(
        stream,
        "{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a [`Liar`] does with a request for a file.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Serves the file, if it is there.
    Honest,
    /// Never answers.
    Hang,
    /// Says what is not there, and takes nothing: whoever writes waits for ever.
    HangOnWrite,
    Error500,
    /// Says 200 to everything, with a page for people.
    Page,
    /// Begins an answer that comes a byte at a time, for ever.
    Drip,
    /// Serves results as they are and blobs without their last byte, claiming them whole.
    Torn,
    /// Serves results as they are and blobs of the right size with other content.
    Changed,
    /// Serves results as they are and for blobs more and more.
    Endless,
}

/// A small HTTP server that serves a folder, more or less.
pub(crate) struct Liar {
    listener: TcpListener,
    connections: Arc<AtomicUsize>,
}

impl Liar {
    pub(crate) fn new(dir: &Path, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accepting = listener.try_clone().unwrap();
        let dir = dir.to_owned();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        std::thread::spawn(move || {
            for stream in accepting.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let dir = dir.clone();
                std::thread::spawn(move || drop(serve(stream, &dir, manner)));
            }
        });
        Self {
            listener,
            connections,
        }
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "http://127.0.0.1:{}",
            self.listener.local_addr().unwrap().port()
        )
    }
}

fn serve(mut stream: TcpStream, dir: &Path, manner: Manner) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head
            .split(' ')
            .nth(1)
            .unwrap_or("/")
            .trim_start_matches('/')
            .to_owned();
        let is_blob = path.contains("blobs/");
        let content = fs::read(dir.join(&path)).ok();
        let begin = |status: &str, length: usize| {
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n")
        };
        match (manner, content) {
            (Manner::HangOnWrite, _) if !head.starts_with("GET ") => {
                std::thread::sleep(Duration::from_secs(600))
            }
            (Manner::Hang, _) => std::thread::sleep(Duration::from_secs(600)),
            (Manner::Error500, _) => {
                stream.write_all((begin("500 Oops", 4) + "oops").as_bytes())?
            }
            (Manner::Page, _) => {
                stream.write_all((begin("200 OK", 13) + "<html></html>").as_bytes())?
            }
            (Manner::Drip, _) => {
                stream.write_all(begin("200 OK", 1 << 30).as_bytes())?;
                loop {
                    stream.write_all(b"o")?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            (_, None) => stream.write_all(begin("404 Not Found", 0).as_bytes())?,
            (Manner::Torn, Some(content)) if is_blob => {
                stream.write_all(begin("200 OK", content.len()).as_bytes())?;
                stream.write_all(&content[..content.len() - 1])?;
                return Ok(());
            }
            (Manner::Endless, Some(_)) if is_blob => {
                stream.write_all(begin("200 OK", 1 << 40).as_bytes())?;
                loop {
                    stream.write_all(&[7; 1 << 16])?;
                }
            }
            (Manner::Changed, Some(mut content)) if is_blob => {
                content[0] ^= 1;
                stream.write_all(begin("200 OK", content.len()).as_bytes())?;
                stream.write_all(&content)?;
            }
            (_, Some(content)) => {
                stream.write_all(begin("200 OK", content.len()).as_bytes())?;
                stream.write_all(&content)?;
            }
        }
    }
}
