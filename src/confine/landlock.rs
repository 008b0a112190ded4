//! Confining by Linux's Landlock. The only home of the landlock crate.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};

use super::{Enforced, Grants, Hidden, Tcp, capabilities, filter, network, out_of_the_way};

/// The newest version that is known here; an older kernel drops what it lacks.
const NEWEST: ABI = ABI::V9;

/// Rules that the kernel has, not yet in force.
#[derive(Debug)]
pub struct Confinement {
    rules: OwnedFd,
    filter: Vec<libc::sock_filter>,
    network: Option<&'static fs::File>,
    keeps_privileges: bool,
}

impl Confinement {
    /// The kernel's version of Landlock, if it has and uses it.
    pub(super) fn version() -> Option<u32> {
        const VERSION: libc::c_uint = 1;
        // SAFETY: with this flag the kernel takes no structure and answers with a number.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                std::ptr::null::<libc::c_void>(),
                0_usize,
                VERSION,
            )
        };
        u32::try_from(answer).ok().filter(|version| *version > 0)
    }

    /// Prepares what a child is held to; None where nothing is enforced. A granted path that is not there is an error:
    /// what the child misses would be hard to explain later.
    pub fn of(grants: &Grants) -> io::Result<Option<Self>> {
        if !Enforced::here().is_some() {
            return Ok(None);
        }
        let mut writing = AccessFs::from_write(NEWEST);
        if grants.hidden.is_some() {
            // What may be written may be read again.
            writing |= AccessFs::ReadFile;
        }
        let mut rules = Ruleset::default().handle_access(writing).map_err(failed)?;
        if grants.tcp != Tcp::Allowed {
            let handled = match grants.tcp {
                // Its own listeners stay, as a browser has them for its tools.
                Tcp::Port(_) => AccessNet::ConnectTcp.into(),
                _ => AccessNet::from_all(NEWEST),
            };
            rules = rules.handle_access(handled).map_err(failed)?;
        }
        let mut rules = rules
            .scope(Scope::from_all(NEWEST))
            .and_then(Ruleset::create)
            .map_err(failed)?;
        for path in &grants.write {
            let lacking =
                |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            // A device's node leads to the device, wherever it lies.
            let writing = if grants.is_everything() {
                writing
            } else {
                writing & !(AccessFs::MakeBlock | AccessFs::MakeChar)
            };
            let access = if fs::metadata(path).map_err(lacking)?.is_dir() {
                writing
            } else {
                writing & AccessFs::from_file(NEWEST)
            };
            let beneath = PathBeneath::new(PathFd::new(path).map_err(failed)?, access);
            rules = rules.add_rule(beneath).map_err(failed)?;
        }
        for path in grants.hidden.iter().flat_map(Hidden::readable) {
            // It may have gone since it was listed.
            if let Ok(path) = PathFd::new(path) {
                let reading = PathBeneath::new(path, AccessFs::ReadFile);
                rules = rules.add_rule(reading).map_err(failed)?;
            }
        }
        if let Tcp::Port(port) = grants.tcp {
            rules = rules
                .add_rule(NetPort::new(port, AccessNet::ConnectTcp))
                .map_err(failed)?;
        }
        let Some(rules) = Option::<OwnedFd>::from(rules) else {
            return Ok(None);
        };
        Ok(Some(Self {
            rules: out_of_the_way(rules.as_fd())?,
            filter: grants.filter(),
            network: (grants.tcp == Tcp::Denied)
                .then(network::isolated)
                .flatten(),
            keeps_privileges: grants.is_everything(),
        }))
    }

    /// Holds the calling process to it for good. Makes system calls only, so it may be called between fork and exec.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(network) = self.network {
            network::enter(network)?;
        }
        self.grant_own_records()?;
        // SAFETY: neither call takes a pointer.
        let code = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_landlock_restrict_self, self.rules.as_raw_fd(), 0)
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        if !self.filter.is_empty() {
            filter::enter(&self.filter)?;
        }
        if self.keeps_privileges {
            Ok(())
        } else {
            capabilities::drop_all()
        }
    }
}

impl Confinement {
    /// Grants the calling process to write to what the kernel shows of it, as GPU drivers do that name their threads
    /// (`/proc/self/task/…/comm`). Only the process itself can name that folder, so the rule is added here.
    fn grant_own_records(&self) -> io::Result<()> {
        // SAFETY: the path ends with a NUL, the structure is the kernel's `landlock_path_beneath_attr`, and both outlive
        // the calls.
        unsafe {
            let folder = libc::open(c"/proc/self".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            if folder < 0 {
                // Without a mounted /proc there is nothing to write to.
                return Ok(());
            }
            let beneath = OwnRecords {
                allowed_access: WRITE_FILE,
                parent_fd: folder,
            };
            let code = libc::syscall(
                libc::SYS_landlock_add_rule,
                self.rules.as_raw_fd(),
                PATH_BENEATH,
                &raw const beneath,
                0,
            );
            let error = io::Error::last_os_error();
            libc::close(folder);
            if code == 0 { Ok(()) } else { Err(error) }
        }
    }
}

/// The kernel's `LANDLOCK_ACCESS_FS_WRITE_FILE`.
const WRITE_FILE: u64 = 1 << 1;
/// The kernel's `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: libc::c_int = 1;

/// The kernel's `landlock_path_beneath_attr`.
#[repr(C, packed)]
struct OwnRecords {
    allowed_access: u64,
    parent_fd: libc::c_int,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "the kernel does not take the rules of a sandbox: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// How `script` ended under these grants, and its output.
    fn run(script: &str, cwd: &Path, grants: &Grants) -> Option<(bool, String)> {
        let confinement = Confinement::of(grants).unwrap()?;
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(cwd);
        // SAFETY: system calls only.
        unsafe { command.pre_exec(move || confinement.enter()) };
        let output = command.output().unwrap();
        let bytes = [output.stdout, output.stderr].concat();
        Some((
            output.status.success(),
            String::from_utf8_lossy(&bytes).into_owned(),
        ))
    }

    /// What a child without a network must not do, as a Python program that says what it could do.
    const ESCAPES: &str = r#"
import os, socket, stat
done = []
def tried(name, act):
    try:
        act()
        done.append(name)
    except OSError:
        pass
tried("MPTCP", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0))
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM, 0))
tried("fast open", lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", 9)))
tried("block device", lambda: os.mknod("node", stat.S_IFBLK | 0o600, os.makedev(7, 0)))
tried("character device", lambda: os.mknod("node", stat.S_IFCHR | 0o600, os.makedev(1, 3)))
def typed():
    import fcntl, pty, termios
    fcntl.ioctl(pty.openpty()[1], termios.TIOCSTI, b"x")
tried("terminal", typed)
tried("host name", lambda: socket.sethostname(socket.gethostname()))
tried("orch's environment", lambda: open(f"/proc/{os.getppid()}/environ").read())
# What programs need goes on.
socket.socket(); socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); socket.socketpair()
open("own", "w").close(); os.chmod("own", 0o600); os.chown("own", os.getuid(), os.getgid())
print("escaped by", done)
"#;

    #[test]
    fn a_child_without_a_network_finds_no_other_way_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("escapes.py"), ESCAPES).unwrap();
        let grants = Grants::folders([dir.path()]);
        let Some((ok, output)) = run("exec python3 escapes.py", dir.path(), &grants) else {
            return;
        };
        assert!(ok && output.contains("escaped by []"), "{output}");
    }

    #[test]
    fn a_child_without_a_network_sends_no_datagrams_where_namespaces_may_be_made() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let wait = std::time::Duration::from_millis(200);
        receiver.set_read_timeout(Some(wait)).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let receives = |tcp: Tcp| {
            let script = format!("echo x > /dev/udp/127.0.0.1/{port}");
            let grants = Grants::folders([dir.path()]).with_tcp(tcp);
            run(&script, dir.path(), &grants).map(|_| receiver.recv(&mut [0; 8]).is_ok())
        };
        let Some(is_received) = receives(Tcp::Denied) else {
            return;
        };
        assert_eq!(is_received, network::isolated().is_none());
        assert_eq!(receives(Tcp::Allowed), Some(true));
    }

    #[test]
    fn a_child_writes_to_no_terminal_that_it_was_not_given() {
        let [mut master, mut slave] = [-1; 2];
        let mut name = [0 as libc::c_char; 64];
        let null = std::ptr::null_mut();
        // SAFETY: the name has room for what the kernel calls a terminal.
        let made = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                name.as_mut_ptr(),
                null,
                null.cast(),
            )
        };
        if made != 0 {
            return; // no terminals here
        }
        // SAFETY: `openpty` ended the name with a zero.
        let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
        let line = format!("echo x > {}", name.to_str().unwrap());
        let dir = tempfile::tempdir().unwrap();
        if let Some((ok, output)) = run(&line, dir.path(), &Grants::folders([dir.path()])) {
            assert!(!ok, "{output}");
            let given = Grants::folders([dir.path(), "/dev/pts".as_ref()]);
            let (ok, output) = run(&line, dir.path(), &given).unwrap();
            assert!(ok, "{output}");
        }
        // SAFETY: both are this test's.
        unsafe {
            libc::close(master);
            libc::close(slave);
        }
    }

    #[test]
    fn a_child_writes_where_it_may_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("own")).unwrap();
        fs::write(at("theirs"), "x").unwrap();
        fs::hard_link(at("theirs"), at("linked")).unwrap();
        let grants = Grants::folders([at("own").as_path()]);
        let Some((ok, output)) = run(
            "echo y > made && mkdir d && mv made d && echo > /dev/null && echo own >> /proc/self/comm",
            &at("own"),
            &grants,
        ) else {
            assert!(!Enforced::here().is_some(), "nothing is in force");
            return;
        };
        assert!(ok, "{output}");
        for script in [
            "echo y > ../theirs",
            "chmod u+w ../linked; echo y >> ../linked",
            "rm ../theirs",
            "mv ../theirs ../other",
            "mkdir ../d",
            "ln -s ../theirs link && echo y > link",
        ] {
            let (ok, output) = run(script, &at("own"), &grants).unwrap();
            assert!(
                !ok && output.contains("Permission denied"),
                "{script}: {output}"
            );
        }
        assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "x");
    }

    #[test]
    fn a_child_reads_all_but_what_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in [
            "hidden/kept/file",
            "hidden/shown/file",
            "hidden/own/file",
            "beside/file",
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("hidden", at("link")).unwrap();
        let grants = Grants::folders([at("hidden/own").as_path()]).without(Some(Hidden {
            folder: at("hidden"),
            shown: vec![at("hidden/shown"), at("hidden/gone")],
        }));
        let allowed = "cat file ../shown/file ../../beside/file /etc/hostname /proc/self/comm > made && cat made | \
                       cat /dev/stdin && ls ../kept && test -s ../kept/file && bash -c 'echo nested'";
        let Some((ok, output)) = run(allowed, &at("hidden/own"), &grants) else {
            return; // nothing is in force
        };
        assert!(ok && output.ends_with("file\nnested\n"), "{output}");
        for denied in [
            "cat ../kept/file",
            "cat < ../../link/kept/file",
            "cd ../kept; (cat file) & wait $!",
            "ln -s ../kept/file there; cat there",
            "bash ../kept/file",
            "ln ../kept/file here && cat here",
        ] {
            let (ok, output) = run(denied, &at("hidden/own"), &grants).unwrap();
            assert!(!ok, "{denied}: {output}");
        }
    }

    #[test]
    fn a_child_reaches_the_port_that_it_may_and_no_other() {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [one, other] = listeners
            .each_ref()
            .map(|listener| listener.local_addr().unwrap().port());
        let dir = tempfile::tempdir().unwrap();
        let reaches = |port: u16, tcp: Tcp| {
            let grants = Grants::folders([dir.path()]).with_tcp(tcp);
            run(
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
                dir.path(),
                &grants,
            )
            .map(|(ok, _)| ok)
        };
        if !Enforced::here().denies_tcp() {
            return;
        }
        assert_eq!(
            [reaches(one, Tcp::Denied), reaches(one, Tcp::Allowed)],
            [Some(false), Some(true)]
        );
        assert_eq!(
            [reaches(one, Tcp::Port(one)), reaches(other, Tcp::Port(one))],
            [Some(true), Some(false)]
        );
    }

    #[test]
    fn its_descriptors_are_none_that_a_child_receives() {
        let dir = tempfile::tempdir().unwrap();
        let confinement = Confinement::of(&Grants::folders([dir.path()])).unwrap();
        let Some(confinement) = confinement else {
            return;
        };
        let network = confinement.network.map(|file| file.as_raw_fd());
        for fd in network.into_iter().chain([confinement.rules.as_raw_fd()]) {
            assert!(fd >= super::super::LOWEST_DESCRIPTOR, "{fd}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        if Enforced::here().is_some() {
            let error = Confinement::of(&Grants::folders([Path::new("/no/such")])).unwrap_err();
            assert!(error.to_string().starts_with("/no/such: "), "{error}");
        }
    }
}
