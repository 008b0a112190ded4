//! Programs, people and machines that do what nobody asked for; and what orch leaves alone all the same.

#![expect(
    clippy::print_stderr,
    reason = "a test that is skipped says why, and one of chance its seed"
)]

#[cfg(target_os = "linux")]
mod bombs;
mod current;
mod damaged;
mod disks;
mod foreign;
mod kinds;
mod mounts;
mod named;
mod network;
mod paths;
mod permission;
mod read_only;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod unfinished;
mod unpacked;
mod words;

/// Random numbers from `ORCH_TEST_SEED`, or from a seed that a failure shows.
fn rng() -> rand_chacha::ChaCha8Rng {
    let given = std::env::var("ORCH_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("seed: ORCH_TEST_SEED={seed}");
    rand::SeedableRng::seed_from_u64(seed)
}

/// A test that this machine cannot make says so.
#[expect(
    clippy::print_stderr,
    reason = "whoever reads the tests' output should know"
)]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
