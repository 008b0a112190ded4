//! `orch init`

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::cli::args::InitArgs;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::session::UsageError;

/// A first spec: one model of one's own, on the targets that every machine has.
const FILES: [(&str, &str); 4] = [
    ("all.yaml", include_str!("../../../templates/init/all.yaml")),
    ("targets.yaml", include_str!("../../../specs/targets.yaml")),
    ("pipelines.yaml", include_str!("../../../specs/pipelines.yaml")),
    ("schema.json", include_str!("../../../specs/schema.json")),
];

pub(super) fn init(init: &InitArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if let Some((name, _)) = FILES.iter().find(|(name, _)| init.dir.join(name).exists()) {
        let path = init.dir.join(name);
        return Err(UsageError(format!("`{}` is already there; nothing was written", path.display())).into());
    }
    for (name, text) in FILES {
        let path = init.dir.join(name);
        bfs::write_atomic(&path, text.as_bytes()).with_context(|| format!("failed to write `{}`", path.display()))?;
    }
    printer.note(&format!("wrote {0}/all.yaml; next: `orch run {0}/all.yaml`", init.dir.display()));
    Ok(Exit::Success)
}
