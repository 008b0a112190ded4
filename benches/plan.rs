//! What a changed spec costs before any step is looked at: reading and checking it, expanding it, planning.
//!
//!     cargo bench --bench plan -- 100000        # so many rows under `commands:`, and a group for every 100 of them
//!     cargo bench --bench plan -- path/to/spec.yaml
//!
//! Prints the time of each part, its processor time, which holds on a busy machine too, and the peak memory.

#![allow(clippy::print_stdout, reason = "it is what a benchmark is for")]

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use orch::matrix::Matrix;
use orch::plan;
use orch::spec::Spec;

fn main() {
    let given = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .unwrap_or_else(|| "100000".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let path = match given.parse() {
        Ok(rows) => {
            let path = folder.path().join("spec.yaml");
            std::fs::write(&path, suite(rows)).unwrap();
            path
        }
        Err(_) => PathBuf::from(given),
    };
    let megabytes = std::fs::metadata(&path).unwrap().len() as f64 / 1e6;
    let mut clock = Clock::start();
    let spec = Spec::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
    let (seconds, busy) = clock.lap();
    println!(
        "read and check  {seconds:7.3} s, {busy:7.3} s busy: {:.0} MB/s of {megabytes:.0} MB",
        megabytes / seconds
    );
    println!("  peak {:.0} MB", peak_megabytes());
    let matrix = Matrix::of(&spec);
    let plan = plan::build(&spec, &matrix).unwrap();
    let (seconds, busy) = clock.lap();
    println!(
        "expand and plan {seconds:7.3} s, {busy:7.3} s busy: {} steps",
        plan.steps.len()
    );
    drop((spec, matrix));
    println!(
        "  peak {:.0} MB, {:.0} bytes a step",
        peak_megabytes(),
        peak_megabytes() * 1e6 / plan.steps.len() as f64
    );
}

fn suite(rows: u32) -> String {
    let mut text = String::from("version: 1\ncommands:\n");
    for row in 0..rows {
        let file = format!("src/{}/{row}.txt", row / 1000);
        let _ = writeln!(
            text,
            "  c{row}: {{argv: [cp, in, out], inputs: {{in: {{file: {file}}}}}, outputs: [out]}}"
        );
    }
    for group in 0..rows / 100 {
        let _ = write!(
            text,
            "  g{group}: {{argv: [sh, -c, 'cat i* > out'], outputs: [out], inputs: {{"
        );
        for item in 0..100 {
            let _ = write!(
                text,
                "i{item}: {{step: \"command:c{}\"}}, ",
                group * 100 + item
            );
        }
        text.push_str("}}\n");
    }
    text
}

struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), processor_seconds())
    }

    /// Seconds since the last call, and those of all processors.
    fn lap(&mut self) -> (f64, f64) {
        let last = std::mem::replace(self, Self::start());
        (last.0.elapsed().as_secs_f64(), self.1 - last.1)
    }
}

fn usage() -> libc::rusage {
    // SAFETY: all-zero is a value of this plain structure, and getrusage fills it in.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    }
}

fn processor_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn peak_megabytes() -> f64 {
    let unit = if cfg!(target_os = "macos") {
        1.0
    } else {
        1024.0
    };
    usage().ru_maxrss as f64 * unit / 1e6
}
