//! Nothing is sent to anybody, and nothing left in the user's home: every target that is here, with an empty home, its sockets
//! counted.

use std::fs;

use crate::support::{Sandbox, skipped};

const SPEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/all.yaml");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn every_target_runs_with_an_empty_home_and_connects_to_nobody() {
    let sandbox = Sandbox::new().installs();
    let home = sandbox.path("home");
    fs::create_dir(&home).unwrap();
    let sandbox = sandbox.env("HOME", home.to_str().unwrap());
    let run = ["run", SPEC, "-t", "*", "-m", "vit", "--check", "--json"];
    let log = sandbox.path("sockets");
    let has_strace = std::process::Command::new("strace").arg("-V").output();
    let document = if has_strace.is_ok() {
        let shown = log.display().to_string();
        let strace = [
            "strace",
            "-f",
            "-qq",
            "-o",
            &shown,
            "-e",
            "trace=connect,sendto,sendmsg",
        ];
        sandbox.run_through(strace, &run).success().json()
    } else {
        skipped("without strace no socket is seen");
        sandbox.run(run).success().json()
    };
    assert!(
        document["summary"]["passed"].as_u64() >= Some(5),
        "{document}"
    );
    let left: Vec<_> = walkdir::WalkDir::new(&home)
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .collect();
    assert!(left.is_empty(), "left in the user's home: {left:?}");

    // Who is not of this machine is named, with why.
    let page = fs::read_to_string(PAGE).unwrap();
    for line in fs::read_to_string(&log).unwrap_or_default().lines() {
        let Some((_, address)) = line
            .split_once("inet_addr(\"")
            .or_else(|| line.split_once("inet_pton(AF_INET6, \""))
        else {
            continue;
        };
        let (address, _) = address.split_once('"').unwrap();
        if address.starts_with("127.") || address == "::1" {
            continue;
        }
        let is_named = page.contains(&format!("`{address}`"));
        assert!(is_named && line.contains("connect("), "{line}");
    }
}
