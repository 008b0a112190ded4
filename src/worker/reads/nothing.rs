//! Systems on which nothing watches what a program reads. Says so, and is never built.

use std::convert::Infallible;

use crate::worker::reads::Reads;

#[derive(Debug)]
pub(in crate::worker) struct Filter(Infallible);

pub(in crate::worker) type Watch = Filter;

impl Filter {
    pub(super) fn new() -> Result<Self, String> {
        Err("only Linux on x86_64 and aarch64 can report what a program reads".into())
    }

    #[cfg(target_os = "linux")]
    pub(in crate::worker) fn aim(&mut self, _file: *const libc::c_char) {
        match self.0 {}
    }

    #[cfg(target_os = "linux")]
    pub(in crate::worker) unsafe fn install(&mut self) {
        match self.0 {}
    }

    pub(in crate::worker) fn watch(self) -> Result<Watch, String> {
        match self.0 {}
    }

    pub(in crate::worker) fn fd(&self) -> std::os::fd::RawFd {
        match self.0 {}
    }

    pub(in crate::worker) fn answer(&self, _reads: &mut Reads<'_>) {
        match self.0 {}
    }

    pub(in crate::worker) fn is_over(
        &self,
        _patience: std::time::Duration,
        _reads: &mut Reads<'_>,
    ) -> bool {
        match self.0 {}
    }

    pub(in crate::worker) fn answer_the_rest(self) {
        match self.0 {}
    }
}
