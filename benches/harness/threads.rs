//! Which threads of a process spend CPU, and how much memory it has, as the kernel counts them.

use std::fs;
use std::path::Path;

/// CPU seconds by kind of thread, and resident memory, bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Of all threads, those that have ended too.
    pub(crate) all: f64,
    pub(crate) main: f64,
    /// Of threads of one name that live.
    pub(crate) named: f64,
    pub(crate) memory: f64,
}

impl Sample {
    /// None of a process that has ended.
    pub(crate) fn of(pid: u32, name: &str) -> Option<Self> {
        let process = Path::new("/proc").join(pid.to_string());
        let (_, all) = spent(&process)?;
        let (_, main) = spent(&process.join(format!("task/{pid}")))?;
        let threads = fs::read_dir(process.join("task"))
            .ok()?
            .flatten()
            .filter_map(|thread| spent(&thread.path()));
        let named = threads
            .filter(|(known, _)| known == name)
            .map(|(_, seconds)| seconds)
            .sum();
        Some(Self {
            all,
            main,
            named,
            memory: memory(&process)?,
        })
    }
}

/// The name of a process or thread, and its CPU seconds; of a process with those of threads that have ended.
fn spent(at: &Path) -> Option<(String, f64)> {
    let stat = fs::read_to_string(at.join("stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let ticks = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    Some((
        before.split_once('(')?.1.to_owned(),
        ticks.sum::<f64>() / 100.0,
    ))
}

fn memory(process: &Path) -> Option<f64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}
