//! The crates that orch is built of: licences that `deny.toml` allows, from the public registry, held by the lock.
//!
//! CI also runs `cargo deny check bans licenses sources`, for every platform; these tests need no tool besides cargo.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Whether an SPDX expression can be met with these licences.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Old crates write `MIT/Apache-2.0`. No crate nests `AND` below `OR` without brackets.
    let text = expression.replace('/', " OR ").replace(['(', ')'], "");
    match expression.contains(") AND ") || expression.contains(" AND (") {
        true => text
            .split(" AND ")
            .all(|part| part.split(" OR ").any(|one| allowed.contains(one.trim()))),
        false => text
            .split(" OR ")
            .any(|part| part.split(" AND ").all(|one| allowed.contains(one.trim()))),
    }
}

#[test]
fn every_crate_has_an_allowed_licence_and_comes_from_the_registry() {
    let settings: toml::Table = include_str!("../deny.toml").parse().unwrap();
    let allowed = settings["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<_> = allowed
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let about = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let host = String::from_utf8(about)
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned));
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--locked",
            "--all-features",
            "--format-version",
            "1",
            "--filter-platform",
            &host.unwrap(),
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        metadata.status.success(),
        "{}",
        String::from_utf8_lossy(&metadata.stderr)
    );
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let name = &package["name"];
        let source = &package["source"];
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_met(licence, &allowed), "{name}: {licence}");
        let is_ours = source.is_null() && (name == "orch" || name == "orch-torch");
        let is_public = source == "registry+https://github.com/rust-lang/crates.io-index";
        assert!(is_ours || is_public, "{name}: {source}");
    }
}

#[test]
fn an_expression_is_met_by_one_side_of_or_and_both_of_and() {
    let allowed = ["MIT", "Zlib"].map(String::from).into();
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Zlib", true),
        ("(Apache-2.0 OR GPL-3.0) AND Zlib", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}
