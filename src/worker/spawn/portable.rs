//! Starting a program by what the standard library offers everywhere.

use std::io;
use std::process::{Command, Stdio};

use super::{Program, Started};
use crate::worker::process::{Group, speak_to};
use crate::worker::reads::Filter;

/// Starts `program`. Nothing here can watch what it reads, so a filter is never made.
pub(in crate::worker) fn start(program: &Program<'_>, _filter: Option<&mut Filter>) -> io::Result<Started> {
    let file = program.file()?;
    let mut command = Command::new(&file);
    command.args(&program.argv[1..]).current_dir(program.cwd).env_clear().envs(program.env.iter().cloned());
    command.stdin(Stdio::null());
    speak_to(&mut command, program.output)?;
    let group = Group::spawn(&mut command, None)?;
    Ok(Started { group, file })
}
