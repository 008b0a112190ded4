//! The store under everything that can happen to it: kills, many processes, full disks, flipped bits.
//!
//! Short here, long by environment variables: `ORCH_STRESS_KILLS=200 ORCH_STRESS_FLIPS=300 cargo test --release --test
//! stress -- --nocapture`. Everything random comes from ORCH_STRESS_SEED, which is printed.

#![allow(clippy::print_stdout, reason = "seeds and skipped tests are told")]

#[cfg(target_os = "linux")]
mod flips;
#[cfg(target_os = "linux")]
mod full;
#[cfg(target_os = "linux")]
mod kills;
#[cfg(target_os = "linux")]
mod once;
#[cfg(target_os = "linux")]
mod scene;
#[cfg(target_os = "linux")]
mod soak;
#[path = "../support/mod.rs"]
mod support;

/// A number of the environment.
#[cfg(target_os = "linux")]
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[cfg(target_os = "linux")]
fn rng(what: &str) -> rand_chacha::ChaCha8Rng {
    let seed = setting("ORCH_STRESS_SEED", 20_260_101);
    println!("{what}: ORCH_STRESS_SEED={seed}");
    rand::SeedableRng::seed_from_u64(seed)
}
