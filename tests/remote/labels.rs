//! Steps by the labels of workers, on a real server that honours them (NativeLink): what is routed where, and what is lost of
//! a run when a worker, the server or the network is.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::nativelink::{How, Lab, processes_in};
use crate::proxy::{Proxy, Way};
use crate::servers::free_port;
use crate::support::{Sandbox, beside_load, eventually};
use crate::{SPEC, timed};

const RUN: [&str; 5] = ["run", "spec.yaml", "--json", "--step", "command:*"];

/// Everything that can goes there.
pub(crate) fn executor(url: &str, more: &str) -> String {
    format!("[executor]\nurl = '{url}'\nwhere = 'remote'\n{more}\n")
}

fn checkout(url: &str, more: &str) -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("orch.toml", executor(url, more))
}

/// A step that says where it works, and one that waits for a file.
fn spec_with_gate(gate: &Path) -> String {
    let at = gate.display();
    format!(
        "version: 1\ncommands:\n  where: {{argv: [sh, -c, 'pwd -P > out'], outputs: [out]}}\n  \
         slow: {{argv: [sh, -c, 'pwd -P > out; while test ! -e {at}/go; do sleep 0.1; done'], outputs: [out], \
         timeout_seconds: 120}}\n"
    )
}

#[test]
fn a_step_goes_to_a_worker_with_its_labels() {
    let Some(mut lab) = Lab::new("routing by labels", How::default()) else {
        return;
    };
    lab.machine("blue", &[&[("pool", "blue")]]);
    lab.machine("green", &[&[("pool", "green")]]);
    let run = ["run", "spec.yaml", "--json", "--step", "command:where"];
    for _ in 0..3 {
        for pool in ["blue", "green"] {
            let sandbox = Sandbox::new().file("spec.yaml", spec_with_gate(lab.dir.path()));
            let sandbox = sandbox.file(
                "orch.toml",
                executor(&lab.url(), &format!("properties = {{pool = '{pool}'}}")),
            );
            sandbox
                .run([&run[..], &["--rerun", "command:*"]].concat())
                .success()
                .summary([("executed", 1)]);
            let at = sandbox.output("command:where", "out");
            assert!(at.contains(&format!("/{pool}/work-0/")), "{pool}: {at}");
        }
    }
    // A label that nobody has: no hang and no other worker.
    let red = checkout(&lab.url(), "properties = {pool = 'red'}\nqueue = 2");
    let (ended, took) = timed(|| red.run(RUN));
    ended
        .code(3)
        .stderr_has("no worker took it within")
        .stderr_has("pool=red");
    assert!(took < beside_load(Duration::from_secs(30)), "{took:?}");
}

#[test]
fn a_second_clone_has_hits_and_what_the_server_lost_is_made_again() {
    [false, true].into_iter().for_each(remembers);
}

fn remembers(blake3: bool) {
    let Some(mut lab) = Lab::new(
        "what a server that routes remembers",
        How {
            blake3,
            ..How::default()
        },
    ) else {
        return;
    };
    lab.machine("one", &[&[]]);
    let first = checkout(&lab.url(), "");
    first
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("warning");
    assert_eq!(
        first.output("command:second", "twice"),
        "content\ncontent\n"
    );
    first.run(["cache", "verify"]).success();
    let second = checkout(&lab.url(), "");
    second
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2), ("fetched", 2)]);
    assert_eq!(second.output("command:first", "empty"), "");
    // As the store of local runs too.
    let shares = || {
        Sandbox::new()
            .file("spec.yaml", SPEC.replace("echo content", "echo other"))
            .env("ORCH_REMOTE", lab.url())
    };
    shares()
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("2 uploads");
    shares()
        .run(RUN)
        .success()
        .summary([("executed", 0), ("fetched", 2)]);

    // Its server forgets what it has in memory, the worker all that it had.
    lab.kill("one");
    lab.kill_server();
    let twice = |path: &&std::path::PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| bytes == b"content\ncontent\n")
    };
    std::fs::remove_file(lab.blobs().iter().find(twice).expect("it is there")).unwrap();
    std::fs::remove_dir_all(lab.dir.path().join("one")).unwrap();
    lab.start();
    lab.machine("one", &[&[]]);
    let third = checkout(&lab.url(), "");
    let ended = third
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    ended.stderr_has("the server's older result is not whole any more");
    assert_eq!(
        third.output("command:second", "twice"),
        "content\ncontent\n"
    );
}

/// The folders of the workers that execute something now.
fn working(lab: &Lab) -> BTreeSet<String> {
    let name = |entry: walkdir::DirEntry| entry.file_name().to_str().unwrap().to_owned();
    let machines = walkdir::WalkDir::new(lab.dir.path())
        .min_depth(1)
        .max_depth(1)
        .into_iter()
        .flatten()
        .map(name);
    machines
        .filter(|machine| !processes_in(&lab.dir.path().join(machine)).is_empty())
        .collect()
}

#[test]
fn a_worker_that_is_lost_in_mid_step_loses_nothing() {
    let Some(mut lab) = Lab::new("a lost worker among several", How::default()) else {
        return;
    };
    let gate = tempfile::tempdir().unwrap();
    lab.machine("one", &[&[("pool", "blue")]]);
    lab.machine("two", &[&[("pool", "blue")]]);
    lab.machine("other", &[&[("pool", "green")]]);
    let sandbox = Sandbox::new().file("spec.yaml", spec_with_gate(gate.path()));
    let sandbox = sandbox.file(
        "orch.toml",
        executor(&lab.url(), "properties = {pool = 'blue'}"),
    );
    let child = sandbox.spawn(["run", "spec.yaml", "--json", "--step", "command:slow"]);
    eventually("a worker has it", || !working(&lab).is_empty());
    let lost = working(&lab).pop_first().unwrap();
    lab.kill(&lost);
    eventually("another one has it", || {
        working(&lab).iter().any(|now| *now != lost)
    });
    std::fs::write(gate.path().join("go"), "").unwrap();
    sandbox
        .wait(child)
        .success()
        .summary([("executed", 1), ("failed", 0)])
        .stderr_has("its worker was lost");
    let at = sandbox.output("command:slow", "out");
    let left = if lost == "one" { "two" } else { "one" };
    assert!(
        at.contains(&format!("/{left}/work-0/")),
        "{lost} was lost: {at}"
    );
}

#[test]
fn what_stayed_on_a_server_that_lost_it_is_made_again() {
    // It remembers results whose blobs are gone. Its worker keeps copies of its own, so only a step here misses one.
    let Some(mut lab) = Lab::new("what stays on a server", How::default()) else {
        return;
    };
    lab.machine("one", &[&[]]);
    crate::download::loses_in_mid_run(&lab.url(), || lab.blobs(), true);
}

#[test]
fn a_server_that_is_restarted_in_mid_step_loses_nothing() {
    let Some(mut lab) = Lab::new("a restarted server that routes", How::default()) else {
        return;
    };
    let gate = tempfile::tempdir().unwrap();
    lab.machine("one", &[&[]]);
    let sandbox = Sandbox::new()
        .file("spec.yaml", spec_with_gate(gate.path()))
        .file("orch.toml", executor(&lab.url(), ""));
    let child = sandbox.spawn(["run", "spec.yaml", "--json", "--step", "command:slow"]);
    eventually("the worker has it", || !working(&lab).is_empty());
    lab.kill_server();
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(gate.path().join("go"), "").unwrap();
    lab.start();
    let ended = sandbox
        .wait(child)
        .success()
        .summary([("executed", 1), ("failed", 0)]);
    ended.stderr_has("the server cannot be reached");
    assert!(
        sandbox
            .output("command:slow", "out")
            .contains("/one/work-0/")
    );
}

/// An authority, and a certificate of its with the key: files of these names.
pub(crate) fn authority(dir: &Path, name: &str) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Named like what it signs, OpenSSL would take that for signed by itself.
    params
        .distinguished_name
        .push(DnType::CommonName, format!("authority {name}"));
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["127.0.0.1".into()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap()
        .pem();
    for (end, text) in [
        ("ca", issuer.pem()),
        ("cert", cert),
        ("key", key.serialize_pem()),
    ] {
        std::fs::write(dir.join(format!("{name}.{end}")), text).unwrap();
    }
}

#[test]
fn a_server_is_believed_by_its_certificate_and_believes_by_the_client_s() {
    let dir = tempfile::tempdir().unwrap();
    authority(dir.path(), "ours");
    authority(dir.path(), "theirs");
    let path = |name: &str| dir.path().join(name);
    for is_mutual in [false, true] {
        let tls = Some((
            path("ours.cert"),
            path("ours.key"),
            is_mutual.then(|| path("ours.ca")),
        ));
        let Some(mut lab) = Lab::new(
            "encryption",
            How {
                tls,
                ..How::default()
            },
        ) else {
            return;
        };
        lab.machine("one", &[&[]]);
        let url = lab.url().replace("grpc://", "grpcs://");
        let with = |url: &str, options: &[(&str, &str)]| {
            let of = |(name, value): &(&str, &str)| match *name {
                "name" => format!("name = '{value}'"),
                name => format!("{name} = '{}'", path(value).display()),
            };
            let options: Vec<_> = options.iter().map(of).collect();
            checkout(
                url,
                &format!(
                    "timeout = 3\nretries = 1\nqueue = 2\noptions = {{{}}}",
                    options.join(", ")
                ),
            )
            .run(RUN)
        };
        let ca = ("ca", "ours.ca");
        let cert = ("cert", "ours.cert");
        let key = ("key", "ours.key");
        with(&url, &[ca, cert, key])
            .success()
            .stderr_lacks("warning");
        if is_mutual {
            with(&url, &[ca]).code(1);
            with(&url, &[ca, ("cert", "theirs.cert"), ("key", "theirs.key")]).code(1);
        } else {
            with(&url, &[ca]).success();
        }
        with(&url, &[("ca", "theirs.ca"), cert, key])
            .code(1)
            .stderr_has("certificate");
        with(&url, &[ca, cert, key, ("name", "another.host")])
            .code(1)
            .stderr_has("certificate");
        with(&lab.url(), &[]).code(1);
        // As a store: what is refused there costs no result, and is said.
        let shares = |ca: &str| {
            let options: String = [("CA", ca), ("CERT", "ours.cert"), ("KEY", "ours.key")]
                .map(|(name, value)| {
                    format!("{} = '{}'", name.to_lowercase(), path(value).display())
                })
                .join(", ");
            let toml = format!(
                "[remote]\nurl = '{url}'\ntimeout = 3\nretries = 1\noptions = {{{options}}}\n"
            );
            Sandbox::new()
                .file("spec.yaml", SPEC)
                .file("orch.toml", toml)
                .run(RUN)
                .success()
        };
        shares("ours.ca").stderr_lacks("warning");
        shares("theirs.ca")
            .summary([("executed", 2)])
            .stderr_has("warning remote: ");
    }
}

/// 40 MB that are compressed to little.
const LARGE: &str = "version: 1
commands:
  first: {argv: [sh, -c, 'yes 0123456789abcde | head -c 40000000 > file'], outputs: [file]}
  second: {argv: [sh, -c, 'wc -c < x/file > size; cp x/file file'], outputs: [size, file], inputs: {x: {step: 'command:first'}}}
";

#[test]
fn what_compresses_travels_compressed_where_the_server_can() {
    let near = Way {
        delay: Duration::ZERO,
        bytes_per_second: 1e9,
    };
    for zstd in [true, false] {
        let Some(mut lab) = Lab::new(
            "compression",
            How {
                zstd,
                ..How::default()
            },
        ) else {
            return;
        };
        lab.machine("one", &[&[]]);
        let proxy = Proxy::new(lab.port, near);
        let url = format!("grpc://127.0.0.1:{}", proxy.port);
        let program = format!("program = '{}'", env!("CARGO_BIN_EXE_orch"));
        let sandbox = Sandbox::new()
            .file("spec.yaml", LARGE)
            .file("orch.toml", executor(&url, &program));
        sandbox.run(RUN).success().summary([("executed", 2)]);
        assert_eq!(sandbox.output("command:second", "size").trim(), "40000000");
        let passed = proxy.passed();
        assert_eq!(passed < 10_000_000, zstd, "{passed} bytes");
        // Sent as well as fetched.
        let local = Sandbox::new()
            .file("spec.yaml", LARGE.replace("abcde", "fghij"))
            .env("ORCH_REMOTE", &url);
        local.run(RUN).success().stderr_has("2 uploads");
        let sent = proxy.passed() - passed;
        assert_eq!(sent < 10_000_000, zstd, "{sent} bytes");
    }
}

#[test]
fn a_slow_network_is_slow_and_no_failure() {
    let Some(mut lab) = Lab::new("a slow network", How::default()) else {
        return;
    };
    lab.machine("one", &[&[]]);
    let way = Way {
        delay: Duration::from_millis(100),
        bytes_per_second: 500e3,
    };
    let proxy = Proxy::new(lab.port, way);
    let program = format!("timeout = 2\nprogram = '{}'", env!("CARGO_BIN_EXE_orch"));
    let url = format!("grpc://127.0.0.1:{}", proxy.port);
    // Four megabytes take longer than an answer may: a transfer has its own time.
    let spec = "version: 1\ncommands:\n  first: {argv: [sh, -c, 'head -c 4000000 /dev/urandom > file'], outputs: [file]}\n  \
                second: {argv: [sh, -c, 'cat x/file x/file | wc -c > size'], outputs: [size], inputs: {x: {step: \
                'command:first'}}}\n";
    let sandbox = Sandbox::new()
        .file("spec.yaml", spec)
        .file("orch.toml", executor(&url, &program));
    let (ended, took) = timed(|| sandbox.run(RUN));
    ended
        .success()
        .summary([("executed", 2), ("failed", 0)])
        .stderr_lacks("warning");
    assert_eq!(sandbox.output("command:second", "size").trim(), "8000000");
    assert!(took > Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_failure_is_a_failure_and_no_connection_is_reported() {
    let Some(mut lab) = Lab::new("failures on a server that routes", How::default()) else {
        return;
    };
    lab.machine("one", &[&[]]);
    let bad = "version: 1\ncommands:\n  bad: {argv: [sh, -c, 'echo because; echo x > out; exit 4'], outputs: [out]}\n  \
               late: {argv: [sh, -c, 'sleep 60; echo x > out'], outputs: [out], timeout_seconds: 1}\n";
    for _ in 0..2 {
        let sandbox = Sandbox::new()
            .file("spec.yaml", bad)
            .file("orch.toml", executor(&lab.url(), ""));
        let ended = sandbox
            .run([&RUN[..], &["--retries", "0"]].concat())
            .code(1);
        let ended = ended.summary([("executed", 2), ("failed_steps", 2)]);
        ended
            .stderr_has("`sh` ended with exit status: 4: because")
            .stderr_has("TIMEOUT");
    }
    let nobody = checkout(
        &format!("grpc://127.0.0.1:{}", free_port()),
        "timeout = 1\nretries = 1\nqueue = 2",
    );
    nobody.run(RUN).code(1).stderr_has("onnection refused");
}

/// Two machines with one device: a column for each, so that their figures stand side by side.
#[test]
fn a_target_names_the_machine_that_runs_it() {
    let Some(mut lab) = Lab::new("targets that name a machine", How::default()) else {
        return;
    };
    lab.machine("blue", &[&[("orch-device", "cpu"), ("pool", "blue")]]);
    lab.machine("green", &[&[("orch-device", "cpu"), ("pool", "green")]]);
    let sandbox = crate::execution::example();
    sandbox
        .run(["setup", "ort", "--spec", "specs/all.yaml"])
        .success();
    let target = |pool: &str| {
        format!(
            "  {pool}: {{runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32], properties: {{pool: {pool}}}}}\n"
        )
    };
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write(
        "specs/all.yaml",
        spec.replace(
            "targets:\n",
            &format!("targets:\n{}{}", target("blue"), target("green")),
        ),
    );
    let env = format!(
        "env = {{ORCH_ENV_DIR = '{}'}}",
        crate::support::env_dir().display()
    );
    sandbox.write(
        "orch.toml",
        executor(&lab.url(), &env).replace("'remote'", "'auto'"),
    );
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "blue",
        "-t",
        "green",
        "-t",
        "cpu",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("passed", 3), ("failed", 0)])
        .json();
    for case in document["cases"].as_array().unwrap() {
        let target = case["target"].as_str().unwrap();
        let step = format!("run:{}", case["case"].as_str().unwrap());
        let worker = case["facts"][&step]["execution"]["worker"]
            .as_str()
            .unwrap_or("this machine");
        let wanted = if target == "cpu" {
            "this machine".to_owned()
        } else {
            format!("{target}-0-")
        };
        assert!(worker.starts_with(&wanted), "{step} ran on {worker}");
    }
    sandbox.run(run).success().summary([("executed", 0)]);
}
