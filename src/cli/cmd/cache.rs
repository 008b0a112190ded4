//! `orch cache`

use crate::cli::args::{Args, CacheCommand};
use crate::cli::cmd::remote;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::project::absolute;
use crate::device::render::bytes;
use crate::store::DiskStore;

pub(super) fn cache(args: &Args, command: &CacheCommand, printer: &Printer) -> anyhow::Result<Exit> {
    let dir = absolute(&args.cache_dir)?;
    if let CacheCommand::Path = command {
        printer.out(&dir.display().to_string());
        return Ok(Exit::Success);
    }
    match command {
        CacheCommand::Remote { json } => return remote::remote(&dir, *json, printer),
        CacheCommand::Push { all } => return remote::push(&dir, *all, printer),
        _ => {}
    }
    let store = DiskStore::open(&dir)?;
    match command {
        CacheCommand::Path | CacheCommand::Remote { .. } | CacheCommand::Push { .. } => {
            unreachable!("BUG: answered above")
        }
        CacheCommand::Stats { json } => {
            let stats = store.stats()?;
            if *json {
                printer.json(&stats);
            } else {
                printer.out(&format!(
                    "{} records, {} trees, {} files, {}",
                    stats.records,
                    stats.trees,
                    stats.files,
                    bytes(stats.bytes)
                ));
            }
            Ok(Exit::Success)
        }
        CacheCommand::Verify { heal, json } => {
            let problems = store.verify()?;
            if *heal {
                store.heal(&problems)?;
            }
            if *json {
                printer.json(&problems);
            } else if problems.is_empty() {
                printer.out("everything is as it was published");
            } else {
                for problem in &problems {
                    printer.out(&format!("{}: {}", problem.path.display(), problem.what));
                }
                printer.note(match heal {
                    true => "taken out; the steps that made them run again on the next `orch run`",
                    false => "hint: `orch cache verify --heal` takes them out, so that their steps run again",
                });
            }
            Ok(if problems.is_empty() || *heal { Exit::Success } else { Exit::Failed })
        }
    }
}
