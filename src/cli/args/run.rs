//! Arguments of `orch run`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::{RetryArgs, ScopeArgs, SpecArgs, TraceArgs, complete};
use crate::base::Size;
use crate::cli::exit::Exit;
use crate::config::{Download, Where};
use crate::exec;
use crate::session::{Request, Settings};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) spec: SpecArgs,
    #[command(flatten)]
    pub(in crate::cli) scope: ScopeArgs,
    /// Only these steps and what they need, e.g. 'convert:bert:*'; 'failed': those that failed last time, executed again
    #[arg(long = "step", value_name = "GLOB", add = complete::steps())]
    pub(in crate::cli) steps: Vec<String>,
    /// Execute again even if nothing changed: steps, 'run' for all measurements, 'case:bert:*', 'failed' (including
    /// standing failures) or 'flaky'
    #[arg(long, value_name = "GLOB", add = complete::steps())]
    pub(in crate::cli) rerun: Vec<String>,
    /// How many steps may run at once [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) jobs: Option<u32>,
    /// How much memory all running steps may use together, e.g. 8GiB [default: what is free when the run begins]
    #[arg(long, value_name = "SIZE")]
    pub(in crate::cli) memory: Option<Size>,
    #[command(flatten)]
    pub(in crate::cli) retry: RetryArgs,
    /// What to start after a failure
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = KeepGoing::Always)]
    pub(in crate::cli) keep_going: KeepGoing,
    /// Shorthand for --keep-going never
    #[arg(long, conflicts_with = "keep_going")]
    pub(in crate::cli) fail_fast: bool,
    /// Kill a step that uses more memory than this and call it OOM, e.g. 4GiB [default: nine tenths of the machine's]
    #[arg(long, env = "ORCH_JOB_MEMORY", value_name = "SIZE")]
    pub(in crate::cli) job_memory: Option<Size>,
    /// Continue the last run of this command line after it was interrupted or killed: finished steps are not repeated,
    /// failed ones are not retried
    #[arg(long, conflicts_with = "watch")]
    pub(in crate::cli) resume: bool,
    /// Run again whenever the spec or a file that it reads changes, until interrupted
    #[arg(long, conflicts_with = "json")]
    pub(in crate::cli) watch: bool,
    /// Do not use the remote store
    #[arg(long)]
    pub(in crate::cli) no_remote: bool,
    /// A server of the Remote Execution API that executes steps, e.g. grpc://host:8980 [default: that of orch.toml]
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) executor: Option<String>,
    /// Which steps the executor gets [default: auto]
    #[arg(long = "where", value_enum, value_name = "WHERE")]
    pub(in crate::cli) whereabouts: Option<Whereabouts>,
    /// Which outputs of remote steps to download; what a local step reads is always downloaded [default: all]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(in crate::cli) download: Option<Downloads>,
    /// Exit with 0 instead of 3 if nothing ran, for jobs whose hardware may be absent
    #[arg(long)]
    allow_none: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// The folder for the report, the generated tests and copies of artefacts
    #[arg(long, default_value = "orch-out", value_name = "DIR")]
    pub(in crate::cli) out_dir: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) trace: TraceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum KeepGoing {
    /// Every step whose inputs exist
    Always,
    /// Only steps that serve a case which can still pass
    Dependencies,
    /// Nothing new
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Whereabouts {
    /// None
    Local,
    /// All that can execute remotely
    Remote,
    /// Those that need a device which this machine lacks
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Downloads {
    /// All outputs
    All,
    /// Outputs that no other step reads, and those requested by name
    Toplevel,
    /// Nothing
    None,
}

impl Downloads {
    fn of(self) -> Download {
        match self {
            Self::All => Download::All,
            Self::Toplevel => Download::Toplevel,
            Self::None => Download::None,
        }
    }
}

impl Whereabouts {
    fn of(self) -> Where {
        match self {
            Self::Local => Where::Local,
            Self::Remote => Where::Remote,
            Self::Auto => Where::Auto,
        }
    }
}

impl RunArgs {
    pub(in crate::cli) fn allowing_none(&self, exit: Exit) -> Exit {
        if self.allow_none && exit == Exit::NothingRan { Exit::Success } else { exit }
    }

    fn keep_going(&self) -> exec::KeepGoing {
        match self.keep_going {
            _ if self.fail_fast => exec::KeepGoing::Never,
            KeepGoing::Always => exec::KeepGoing::Always,
            KeepGoing::Dependencies => exec::KeepGoing::Dependencies,
            KeepGoing::Never => exec::KeepGoing::Never,
        }
    }

    pub(in crate::cli) fn request(&self) -> Request {
        Request { steps: self.steps.clone(), rerun: self.rerun.clone(), ..self.spec.scoped(&self.scope) }
    }

    pub(in crate::cli) fn settings(&self, command: String) -> Settings {
        Settings {
            jobs: self.jobs,
            memory: self.memory.map(|size| size.0),
            job_memory: self.job_memory.map(|size| size.0),
            keep_going: self.keep_going(),
            retries: self.retry.retries,
            backoff: self.retry.backoff(),
            seed: None,
            no_remote: self.no_remote,
            executor: self.executor.clone(),
            whereabouts: self.whereabouts.map(Whereabouts::of),
            download: self.download.map(Downloads::of),
            out_dir: self.out_dir.clone(),
            trace: self.trace.trace.clone(),
            command,
        }
    }
}
