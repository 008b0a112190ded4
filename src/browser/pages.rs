//! A browser that shows one page after another, each at an origin of its own.
//!
//! One page is open at a time, besides one of orch's that only keeps compiled WebAssembly. Whatever a page stores is
//! its origin's, and the profile is in memory. All pages are of one site, so that they share a process and the compiled
//! code in it; a context of its own for each page would be a process for each, in which everything is compiled again.

use std::time::Instant;

use super::control::Control;
use super::flags::of_many_pages;
use super::process::Child;
use super::serve::{KEEPER, Page, Port, Server};
use super::{Api, Launch, Talk, Trouble, broken, hear, version_of};
use crate::base::process::{held_now, high_water_mark};

/// The host below which every page has a name of its own; browsers know that what ends in `.localhost` is this machine.
const SITE: &str = "orch.localhost";

pub struct Pages {
    child: Child,
    control: Control,
    context: String,
    port: Port,
    api: Api,
    flags: Vec<String>,
    version: Option<String>,
    begun: Instant,
    shown: u32,
}

impl Pages {
    pub fn start(launch: &Launch<'_>) -> Result<Self, Trouble> {
        let port = Port::open(false).map_err(|e| broken("serve pages to the browser", &e))?;
        let flags = of_many_pages(launch.api, launch.adapter);
        let begun = Instant::now();
        let (mut child, mut control) = Child::start(launch, &flags, port.number(), Control::of)?;
        let version = version_of(launch.program);
        let context = control
            .context()
            .map_err(|trouble| child.why_not_started(trouble))?;
        Ok(Self {
            child,
            control,
            context,
            port,
            api: launch.api,
            flags,
            version,
            begun,
            shown: 0,
        })
    }

    /// Opens the page, waits for its answer and closes it. After trouble the browser is of no use any more.
    pub fn show(&mut self, page: &Page<'_>, progress: &dyn Fn(&str)) -> Result<Talk, Trouble> {
        let server = Server::of(&self.port, page);
        let before = self.shown;
        self.shown += 1;
        let (clock, memory): (_, fn(i32) -> _) = match before {
            0 => (self.begun, high_water_mark),
            // What other pages took before does not count.
            _ => (Instant::now(), held_now),
        };
        if before == 0 {
            let keeper = format!("{}{KEEPER}", server.address(&format!("keeper.{SITE}")));
            self.control.open(&self.context, &keeper)?;
        }
        self.child.forget_gpu();
        let target = self.control.open(
            &self.context,
            &server.address(&format!("page-{before}.{SITE}")),
        )?;
        let control = &mut self.control;
        let heard = hear(
            &mut self.child,
            &server,
            self.api,
            clock,
            progress,
            &mut || control.crash(&target),
        )?;
        let processes = self.child.processes(memory);
        self.control.close(&target)?;
        Ok(Talk {
            processes,
            before: Some(before),
            flags: self.flags.clone(),
            version: self.version.clone(),
            ..heard
        })
    }
}
