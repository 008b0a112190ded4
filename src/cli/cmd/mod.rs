//! One command a file.

mod accept;
mod bench;
mod cache;
mod compare;
mod current;
mod devices;
mod explain;
mod graph;
mod history;
mod init;
mod log;
mod matrix;
mod output;
mod plan;
mod profile;
mod query;
mod remote;
mod report;
mod run;
mod serve;
mod setup;
mod site;
mod verify;
mod watch;
mod what_ran;
mod worker;
mod zoo;

use crate::cli::args::{Args, Command, SchemaOf};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::event::{Event, Listener};

pub(super) fn dispatch(args: &Args, printer: &Printer) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Run(run) => run::run(args, run, printer),
        Command::Bench(bench) => bench::bench(args, bench, printer),
        Command::Verify(verify) => verify::verify(args, verify, printer),
        Command::Plan(plan) => plan::plan(args, plan, printer),
        Command::Explain(explain) => explain::explain(args, explain, printer),
        Command::Log(log) => log::log(args, log, printer),
        Command::WhatRan(what) => what_ran::what_ran(args, what, printer),
        Command::Graph(graph) => graph::graph(args, graph, printer),
        Command::Devices(asked) => devices::devices(args, asked, printer),
        Command::Doctor(asked) => devices::doctor(args, asked, printer),
        Command::Matrix(matrix) => matrix::matrix(args, matrix, printer),
        Command::Report(report) => report::report(args, report, printer),
        Command::Compare(asked) => compare::compare(args, asked, printer),
        Command::Serve(asked) => serve::serve(args, asked, printer),
        Command::Site(asked) => site::site(args, asked, printer),
        Command::History(asked) => history::history(args, asked, printer),
        Command::Query(query) => query::query(args, query, printer),
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
        Command::Profile(asked) => profile::profile(args, asked, printer),
        Command::Init(init) => init::init(args, init, printer),
        Command::Add(add) => init::add(args, add, printer),
        Command::Completions { shell } => {
            printer.data(&shell.script());
            Ok(Exit::Success)
        }
        Command::WorkerProperties(asked) => worker::properties(args, asked.json, printer),
        Command::Worker { runtime } => worker::worker(args, runtime),
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
