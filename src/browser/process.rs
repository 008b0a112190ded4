//! The processes of a browser: started with its profile in a scratch folder, watched, ended for certain.

#![expect(clippy::disallowed_methods, reason = "starts the browser")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Launch, Trouble, broken, files};
use crate::base::fs as bfs;
use crate::base::lock;
use crate::base::process::{self, Stat};
use crate::confine::{Confinement, Grants, Tcp};

/// How long a browser may take to close its profile; after that it is killed.
const FAREWELL: Duration = Duration::from_secs(2);
/// Last words of a browser that are shown, in lines and in letters.
const WORDS: (usize, usize) = (6, 800);

/// Bytes of a browser's output that are kept.
const TAIL: usize = 64 << 10;
/// How long is waited for words that are still on their way.
const DRAINED: Duration = Duration::from_millis(300);

/// The memory that a browser took, where the system reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Processes {
    /// Processes that lived at the end, by kind: `browser`, `renderer`, `gpu-process`, …
    pub kinds: BTreeMap<String, u32>,
    /// Sum of what each of them held at its peak, bytes; in a browser that has shown other pages, at the end of this one.
    /// Pages of memory that they share count in each.
    pub peak_rss_bytes: Option<u64>,
}

pub(super) struct Child {
    child: std::process::Child,
    profile: PathBuf,
    log: Log,
    /// The process in which the page's device lives, and since when it is gone.
    gpu: Option<(Member, Option<Instant>)>,
    ended: bool,
}

impl Child {
    /// Starts it in this process' group: what ends the group ends all of the browser. It reaches the one port
    /// and nothing else. `also` adds to its command line what it is to open, or the way by which it is reported.
    pub(super) fn start<T>(
        launch: &Launch<'_>,
        flags: &[String],
        port: u16,
        also: impl FnOnce(&mut Command) -> io::Result<T>,
    ) -> Result<(Self, T), Trouble> {
        let profile = launch.scratch.join("browser-profile");
        std::fs::create_dir_all(&profile).map_err(|e| {
            broken(
                &format!("make a profile below `{}`", launch.scratch.display()),
                &e,
            )
        })?;
        let made = Log::open().and_then(|(log, out)| Ok((log, out.try_clone()?, out)));
        let (log, out, err) = made.map_err(|e| broken("listen to the browser", &e))?;
        let mut command = Command::new(launch.program);
        command
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.display()));
        // It looks for a session bus, a display and a home to write to; it has none here.
        command
            .env("HOME", &profile)
            .env("TMPDIR", launch.scratch)
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .env_remove("DISPLAY");
        command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .current_dir(launch.scratch);
        with_libraries(&mut command, launch.program);
        let also = also(&mut command).map_err(|e| broken("prepare the browser", &e))?;
        hold(&mut command, launch.scratch, port)
            .map_err(|e| broken("make the browser's sandbox", &e))?;
        let child = command.spawn().map_err(|e| Trouble::Unavailable {
            reason: format!(
                "the browser `{}` does not start: {e}",
                launch.program.display()
            ),
            remedy: Some("`orch setup browser` installs one; ORCH_BROWSER names another".into()),
        })?;
        Ok((
            Self {
                child,
                profile,
                log,
                gpu: None,
                ended: false,
            },
            also,
        ))
    }

    /// Why it takes no commands: if it has ended, or does so in a moment, that says more than the `trouble` with them.
    pub(super) fn why_not_started(&mut self, trouble: Trouble) -> Trouble {
        let clock = Instant::now();
        while clock.elapsed() < DRAINED {
            if let Err(ended) = self.check(false) {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        trouble
    }

    /// Forgets what is known of the GPU process, before another page is opened.
    pub(super) fn forget_gpu(&mut self) {
        self.gpu = None;
    }

    /// An error if it has ended. `worked`: it had opened its page.
    pub(super) fn check(&mut self, worked: bool) -> Result<(), Trouble> {
        let status = self
            .child
            .try_wait()
            .map_err(|e| broken("watch the browser", &e))?;
        let Some(status) = status else { return Ok(()) };
        Err(if worked {
            Trouble::Died(format!(
                "the browser {} while its page worked{}",
                ending(status),
                self.last_words()
            ))
        } else {
            not_started(&self.words(), &ending(status))
        })
    }

    /// Ties the page to the GPU process that lives now: another one would not have its device.
    pub(super) fn watch_gpu(&mut self) {
        if self.gpu.is_none() {
            let found = family(self.child.id())
                .into_iter()
                .find(|member| member.kind == "gpu-process");
            self.gpu = found.map(|member| (member, None));
        }
    }

    /// An error if the process of the page is gone, or that of its device. The browser itself survives that, and the page is
    /// silent for ever.
    pub(super) fn check_page(&mut self) -> Result<(), Trouble> {
        let family = family(self.child.id());
        // Without /proc nothing is known; the step's time limit is left.
        if !family.is_empty() && !family.iter().any(|member| member.kind == "renderer") {
            self.check(true)?;
            return Err(self.page_died(""));
        }
        if let Some((gpu, gone)) = self.gpu.as_mut().filter(|(gpu, _)| !gpu.lives())
            && gone.get_or_insert_with(Instant::now).elapsed() > super::GRACE
        {
            let text = format!(
                "the browser's GPU process {} died while the page worked",
                gpu.pid
            );
            self.check(true)?;
            return Err(Trouble::Died(format!("{text}{}", self.last_words())));
        }
        Ok(())
    }

    /// `how` follows what is reported of it.
    pub(super) fn page_died(&self, how: &str) -> Trouble {
        let words = self.last_words();
        Trouble::Died(format!(
            "the browser's process of the page died while it worked{how}{words}"
        ))
    }

    /// `memory` gives the bytes of one process by its number.
    pub(super) fn processes(&self, memory: fn(i32) -> Option<u64>) -> Processes {
        let mut found = Processes::default();
        for member in family(self.child.id()) {
            if let Some(bytes) = memory(member.pid) {
                *found.peak_rss_bytes.get_or_insert(0) += bytes;
            }
            *found.kinds.entry(member.kind).or_default() += 1;
        }
        found
    }

    /// ` (its last words: …)`, or nothing.
    pub(super) fn last_words(&self) -> String {
        let words = self.words();
        if words.is_empty() {
            words
        } else {
            format!(" (its last words: {words})")
        }
    }

    fn words(&self) -> String {
        let text = self.log.tail();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let tail = lines[lines.len().saturating_sub(WORDS.0)..].join(" | ");
        tail.chars().take(WORDS.1).collect()
    }

    /// Ends it and all that it started.
    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let family = family(self.child.id());
        // SAFETY: kill takes no pointers; the child is not reaped yet, so its number is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let clock = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && clock.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        family
            .iter()
            .filter(|member| member.lives())
            .for_each(Member::kill);
        self.log.drain();
        let _ = bfs::remove_dir(&self.profile);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a browser writes. It goes to this process' own stderr as it comes, so that it is kept whoever ends this process.
struct Log {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl Log {
    fn open() -> io::Result<(Self, PipeWriter)> {
        let (mut pipe, writer) = io::pipe()?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let own = Arc::clone(&tail);
        let reader = std::thread::Builder::new()
            .name("browser-log".into())
            .spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                    let _ = io::stderr().write_all(&bytes[..count]);
                    let mut tail = lock(&own);
                    tail.extend(&bytes[..count]);
                    let surplus = tail.len().saturating_sub(TAIL);
                    tail.drain(..surplus);
                }
            })?;
        Ok((Self { tail, reader }, writer))
    }

    /// Reads until everything is read that was written, if all who could write are gone.
    fn drain(&self) {
        let clock = Instant::now();
        while !self.reader.is_finished() && clock.elapsed() < DRAINED {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn tail(&self) -> Vec<u8> {
        self.drain();
        lock(&self.tail).iter().copied().collect()
    }
}

/// Lets the loader find the libraries that came with a browser.
pub(super) fn with_libraries(command: &mut Command, program: &Path) {
    if let Some(folder) = files::libraries(program) {
        command.env("LD_LIBRARY_PATH", folder);
    }
}

/// It writes to its scratch folder and reaches the page's own server, nothing else of this machine or of the network; and
/// it ends with this process.
fn hold(command: &mut Command, scratch: &Path, port: u16) -> io::Result<()> {
    let mut grants = Grants::folders([scratch]).with_tcp(Tcp::Port(port));
    if !rustix::process::geteuid().is_root() {
        // Its own sandbox, which it makes for users only, is described to the kernel there.
        grants.write.push("/proc".into());
    }
    let confinement = Confinement::of(&grants)?;
    let parent = std::process::id();
    let enter = move || {
        process::die_with(parent);
        confinement.as_ref().map_or(Ok(()), Confinement::enter)
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, code) => format!("ended with code {}", code.unwrap_or_default()),
    }
}

/// What a browser's words mean that ended before it opened anything.
fn not_started(words: &str, ending: &str) -> Trouble {
    const LOADER: &str = "error while loading shared libraries: ";
    let (reason, remedy) = if let Some((_, rest)) = words.split_once(LOADER) {
        let library = rest.split(':').next().unwrap_or(rest).trim();
        (
            format!("the browser needs the library {library}, which this system lacks"),
            package_of(library),
        )
    } else if words.contains("Exec format error") || words.contains("cannot execute") {
        (
            format!("the browser is not made for this machine: {words}"),
            "name another with ORCH_BROWSER".to_owned(),
        )
    } else if words.contains("No usable sandbox") {
        let remedy = "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)";
        (
            "the browser finds no sandbox that this user may use".to_owned(),
            remedy.to_owned(),
        )
    } else {
        return Trouble::Died(format!(
            "the browser {ending} before it opened its page (its last words: {words})"
        ));
    };
    Trouble::Unavailable {
        reason,
        remedy: Some(remedy),
    }
}

fn package_of(library: &str) -> String {
    let package = match library {
        "libnspr4.so" | "libplc4.so" | "libplds4.so" => "libnspr4",
        name if name.starts_with("libexpat") => "libexpat1",
        name if name.starts_with("libnss")
            || name.starts_with("libsoftokn")
            || name.starts_with("libfreebl") =>
        {
            "libnss3"
        }
        _ => {
            return format!(
                "install the package with {library} (Debian: `apt-file search {library}` names it)"
            );
        }
    };
    format!("apt-get install {package}, or what your system calls it")
}

/// A process of the browser, known by its number and the moment at which it started.
struct Member {
    pid: i32,
    started: u64,
    kind: String,
}

impl Member {
    fn lives(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.is_alive() && stat.started == self.started)
    }

    fn kill(&self) {
        // SAFETY: kill takes no pointers; that the number is still this process' was checked right before.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

/// A process and all that descend from it; empty where there is no /proc.
fn family(root: u32) -> Vec<Member> {
    let all = [root as i32]
        .into_iter()
        .chain(process::descendants(root as i32));
    let living = all.filter_map(|pid| Some((pid, Stat::of(pid).filter(Stat::is_alive)?)));
    living
        .map(|(pid, stat)| Member {
            pid,
            started: stat.started,
            kind: kind(pid),
        })
        .collect()
}

/// `renderer`, by its own `--type=renderer`; the one without a type is the browser.
fn kind(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // Chromium rewrites its children's command lines with blanks instead of zeros.
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let kind = line
        .split(' ')
        .find_map(|word| word.strip_prefix("--type="));
    kind.unwrap_or("browser").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let words = "/x/chromium: error while loading shared libraries: libnss3.so: cannot open shared object file";
        let Trouble::Unavailable { reason, remedy } = not_started(words, "ended with code 127")
        else {
            panic!()
        };
        assert_eq!(
            reason,
            "the browser needs the library libnss3.so, which this system lacks"
        );
        assert!(remedy.unwrap().contains("libnss3"));
        assert!(
            matches!(not_started("", "was ended by signal 11"), Trouble::Died(why) if why.contains("signal 11"))
        );
    }

    #[test]
    fn a_family_is_found_and_its_members_are_distinguished_from_their_successors() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 30 & wait"])
            .spawn()
            .unwrap();
        let clock = Instant::now();
        while family(child.id()).len() < 2 && clock.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let found = family(child.id());
        assert_eq!(found.len(), 2);
        assert!(
            found
                .iter()
                .all(|member| member.lives() && member.kind == "browser")
        );
        assert!(
            !Member {
                pid: found[0].pid,
                started: 0,
                kind: String::new()
            }
            .lives()
        );
        found.iter().for_each(Member::kill);
        child.wait().unwrap();
    }
}
