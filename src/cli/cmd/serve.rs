//! `orch serve`: the report, live, for a browser of this machine.

use anyhow::Context as _;

use crate::cli::args::SpecArgs;
use crate::cli::cmd::run::on_interrupt;
use crate::cli::serving::Port;
use crate::cli::{Args, Exit, Printer};
use crate::session::{Live, trends};
use crate::worker::Cancel;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ServeArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 8750)]
    port: u16,
}

pub(super) fn serve(args: &Args, serve: &ServeArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let cancel = Cancel::default();
    on_interrupt(&cancel, || {})?;
    let mut live = Live::new(args.locations(), serve.spec.request());
    // A spec with mistakes is reported at once; those of a later day stand on the page.
    if let Err(error) = &live.shown().what {
        anyhow::bail!("{error}");
    }
    trends(&args.locations(), &|text| printer.note(text));
    let port = Port::open(serve.port).with_context(|| {
        format!(
            "failed to listen on port {} of 127.0.0.1\n  hint: `--port 0` picks a free one",
            serve.port
        )
    })?;
    printer.out(&format!(
        "{0}  the report\n{0}site/  a page for each model, target and pair\n",
        port.address()
    ));
    printer.note("follows the store during runs; Ctrl-C ends it");
    port.serve(&mut live, &cancel)?;
    Ok(Exit::Success)
}
