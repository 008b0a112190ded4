//! NativeLink on this machine: a server that routes by platform properties, and workers with labels, each a process that may
//! be killed as a machine is lost. Knows nothing of orch.
//!
//! It is built from source (docs/remote-execution.md), so ORCH_TEST_NATIVELINK names its executable.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::servers::{Server, free_port, started};

/// How its server speaks with clients.
#[derive(Default)]
pub(crate) struct How {
    /// Offers Zstandard.
    pub(crate) zstd: bool,
    /// Its own digest function is BLAKE3.
    pub(crate) blake3: bool,
    /// PEM files: certificate and key of the server, and the authority that clients must have theirs from.
    pub(crate) tls: Option<(PathBuf, PathBuf, Option<PathBuf>)>,
}

/// A server, its workers and their folders.
pub(crate) struct Lab {
    pub(crate) dir: tempfile::TempDir,
    how: How,
    /// For clients; the other one is for workers.
    pub(crate) port: u16,
    inner: u16,
    server: Option<Server>,
    workers: Vec<(String, Child)>,
}

/// Whether it is there; said if not, so that nobody takes it for a test that passed.
#[allow(clippy::print_stderr, reason = "what is not tested is said")]
pub(crate) fn program(what: &str) -> Option<PathBuf> {
    let program = std::env::var_os("ORCH_TEST_NATIVELINK").map(PathBuf::from);
    if program.is_none() {
        eprintln!("NOT TESTED: {what}: ORCH_TEST_NATIVELINK names no executable of NativeLink");
    }
    program
}

impl Lab {
    /// None if there is no NativeLink.
    pub(crate) fn new(what: &str, how: How) -> Option<Self> {
        program(what)?;
        let port = free_port();
        let inner = free_port();
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut lab = Self {
            dir,
            how,
            port,
            inner,
            server: None,
            workers: vec![],
        };
        lab.start();
        Some(lab)
    }

    pub(crate) fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn files(&self, name: &str) -> Value {
        let content = self.at(&format!("{name}/content"));
        let temporary = self.at(&format!("{name}/temporary"));
        json!({"filesystem": {"content_path": content, "temp_path": temporary}})
    }

    fn global(&self) -> Value {
        let function = if self.how.blake3 { "blake3" } else { "sha256" };
        json!({"max_open_files": 10_000, "default_digest_hash_function": function})
    }

    /// Starts its server, over what it kept.
    pub(crate) fn start(&mut self) {
        let services = |is_inner: bool| {
            let mut services = json!({
                "cas": [{"cas_store": "CAS"}],
                "ac": [{"ac_store": "AC"}],
                "bytestream": [{"cas_store": "CAS"}],
            });
            if is_inner {
                services["worker_api"] = json!({"scheduler": "MAIN"});
            } else {
                services["execution"] = json!([{"cas_store": "CAS", "scheduler": "MAIN"}]);
                let execution = json!({"scheduler": "MAIN"});
                services["capabilities"] = json!([{"remote_execution": execution, "remote_cache_compression": self.how.zstd}]);
            }
            services
        };
        let listener = |port: u16, tls: Option<&(PathBuf, PathBuf, Option<PathBuf>)>| {
            let mut http = json!({"socket_address": format!("127.0.0.1:{port}")});
            if let Some((cert, key, clients)) = tls {
                http["tls"] = json!({"cert_file": cert, "key_file": key});
                if let Some(clients) = clients {
                    http["tls"]["client_ca_file"] = json!(clients);
                }
            }
            json!({"http": http})
        };
        let mut known: serde_json::Map<String, Value> = [
            "cpu",
            "orch-device",
            "orch-host",
            "has-cpu",
            "has-openvino",
            "pool",
        ]
        .map(|name| (name.to_owned(), json!("exact")))
        .into_iter()
        .collect();
        known.insert("mem_mb".into(), json!("minimum"));
        let stores = [
            (
                "CAS",
                json!({"verify": {"backend": self.files("cas"), "verify_size": true, "verify_hash": true}}),
            ),
            ("AC", self.files("ac")),
        ];
        let named = |(name, store): (&str, Value)| {
            let mut store = store;
            store["name"] = json!(name);
            store
        };
        let config = json!({
            "stores": stores.map(named),
            "schedulers": [{"name": "MAIN", "simple": {"supported_platform_properties": known}}],
            "servers": [
                {"listener": listener(self.port, self.how.tls.as_ref()), "services": services(false)},
                {"listener": listener(self.inner, None), "services": services(true)},
            ],
            "global": self.global(),
        });
        self.server = Some(started(self.command("server", &config), self.inner));
    }

    pub(crate) fn kill_server(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// A machine with workers of these labels, each of which takes one action at a time. It gets its work from the server.
    /// Of a name that several labels share NativeLink knows only the last one, so each device is a worker.
    pub(crate) fn machine(&mut self, name: &str, workers: &[&[(&str, &str)]]) {
        let store = |kind: &str| {
            let endpoints = json!([{"address": format!("grpc://127.0.0.1:{}", self.inner)}]);
            json!({"grpc": {"endpoints": endpoints, "store_type": kind}})
        };
        let fast = self.files(name);
        let worker = |(number, labels): (usize, &&[(&str, &str)])| {
            let cpu = ("cpu", std::env::consts::ARCH);
            let memory = ("mem_mb", "1000000");
            let all = labels.iter().chain([&cpu, &memory]);
            let properties: serde_json::Map<String, Value> = all
                .map(|(name, value)| ((*name).to_owned(), json!({"values": [value]})))
                .collect();
            json!({"local": {
                "name": format!("{name}-{number}-"),
                "worker_api_endpoint": {"uri": format!("grpc://127.0.0.1:{}", self.inner)},
                "cas_fast_slow_store": "WORKER",
                "upload_action_result": {"ac_store": "RESULTS"},
                "work_directory": self.at(&format!("{name}/work-{number}")),
                "max_inflight_tasks": 1,
                "platform_properties": properties,
            }})
        };
        let workers: Vec<_> = workers.iter().enumerate().map(worker).collect();
        let mut results = store("ac");
        results["name"] = json!("RESULTS");
        let config = json!({
            "stores": [{"name": "WORKER", "fast_slow": {"fast": fast, "slow": store("cas")}}, results],
            "workers": workers,
            "servers": [],
            "global": self.global(),
        });
        let child = self.command(name, &config).spawn().unwrap();
        self.workers.push((name.to_owned(), child));
    }

    fn command(&self, name: &str, config: &Value) -> Command {
        let path = self.dir.path().join(format!("{name}.json"));
        fs::write(&path, config.to_string()).unwrap();
        let log = fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program("it").unwrap());
        command
            .arg(path)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null());
        command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        command
    }

    /// As a machine is lost: with everything that it was doing.
    pub(crate) fn kill(&mut self, name: &str) {
        let at = self
            .workers
            .iter()
            .position(|(known, _)| known == name)
            .unwrap();
        let (_, mut child) = self.workers.remove(at);
        let _ = child.kill();
        let _ = child.wait();
        for pid in processes_in(&self.dir.path().join(name)) {
            // SAFETY: kill takes no pointers.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    /// The files that its server keeps contents in.
    pub(crate) fn blobs(&self) -> Vec<PathBuf> {
        crate::files(&self.dir.path().join("cas/content"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        while let Some((name, _)) = self.workers.first() {
            let name = name.clone();
            self.kill(&name);
        }
    }
}

/// Processes that work in a folder.
pub(crate) fn processes_in(dir: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
    })
    .collect()
}
