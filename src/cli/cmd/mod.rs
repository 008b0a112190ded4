//! One command a file.

mod accept;
mod cache;
mod current;
mod devices;
mod explain;
mod graph;
mod init;
mod log;
mod output;
mod plan;
mod remote;
mod report;
mod run;
mod setup;
mod watch;
mod what_ran;
mod worker;
mod zoo;

use clap::CommandFactory;

use crate::cli::args::{Args, Command, SchemaOf};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::event::{Event, Listener};

pub(super) fn dispatch(args: &Args, printer: &Printer) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Run(run) => run::run(args, run, printer),
        Command::Plan(plan) => plan::plan(args, plan, printer),
        Command::Explain(explain) => explain::explain(args, explain, printer),
        Command::Log(log) => log::log(args, log, printer),
        Command::WhatRan(what) => what_ran::what_ran(args, what, printer),
        Command::Graph(graph) => graph::graph(args, graph, printer),
        Command::Devices(asked) => devices::devices(args, asked, printer),
        Command::Doctor(json) => devices::doctor(args, json.json, printer),
        Command::Report(report) => report::report(args, report, printer),
        Command::Accept(accept) => accept::accept(args, accept, printer),
        Command::Output(output) => output::output(args, output, printer),
        Command::Cache(cache) => cache::cache(args, cache, printer),
        Command::Setup(setup) => setup::setup(args, setup, printer),
        Command::Zoo(command) => zoo::zoo(args, command, printer),
        Command::Schema { of } => {
            printer.data(&match of {
                SchemaOf::Specs => crate::spec::schema::text(),
                SchemaOf::Devices => crate::device::Inventory::schema(),
            });
            Ok(Exit::Success)
        }
        Command::Init(init) => init::init(init, printer),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "orch", &mut script);
            printer.data(&String::from_utf8_lossy(&script));
            Ok(Exit::Success)
        }
        Command::Worker { runtime } => worker::worker(runtime),
    }
}

/// Hears warnings and nothing else: for commands that execute nothing.
struct Warnings<'a>(&'a Printer);

impl Listener for Warnings<'_> {
    fn tell(&self, event: Event) {
        if let Event::Warning { text } = event {
            self.0.note(&format!("warning: {text}"));
        }
    }
}
