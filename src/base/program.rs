//! The file of the orch program, which performs jobs, asks libraries and repeats runs as processes of its own.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What [`set`] named.
static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the orch program, for a program that uses orch as a library: such a program cannot be its own worker. To be called
/// before anything else; a second call changes nothing.
pub fn set(program: PathBuf) {
    let _ = NAMED.set(program);
}

/// The file of the orch program: this process's own, unless another one is named.
pub fn path() -> io::Result<PathBuf> {
    match NAMED.get() {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe(),
    }
}

/// The program for workers of the same version: on Linux this process's own also when its file was replaced or removed
/// meanwhile, by an update or a build.
pub fn for_workers() -> io::Result<PathBuf> {
    // A child between fork and exec still is this program.
    if cfg!(target_os = "linux") && NAMED.get().is_none() {
        Ok("/proc/self/exe".into())
    } else {
        path()
    }
}
