//! A seccomp filter that asks orch about each call that opens or executes a file, and the answering.
//!
//! The answer is always "go on", so nothing is enforced and nothing can be relied on: the path is read from the memory
//! of a process that could change it afterwards. That is enough to tell an honest program's forgotten input.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::confine::bpf::{ARCH, argument, give, jump, load, statement};
use crate::worker::process::{poll, readable};
use crate::worker::reads::Reads;

const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
const SYNC_WAKE_UP: u64 = 1;
/// Flags of an open that reads nothing which was there before.
const NO_READ: i32 = libc::O_DIRECTORY | libc::O_PATH | libc::O_TRUNC | libc::O_EXCL;

pub(in crate::worker) struct Filter {
    code: Vec<libc::sock_filter>,
    /// The places in `code` at which the address of the program's name is compared, low and high half.
    aimed: [usize; 2],
    /// The descriptor on which the kernel asks, or the negated error of installing the filter.
    listener: i32,
}

impl Filter {
    /// Fails where the kernel is known not to ask.
    pub(super) fn new() -> Result<Self, String> {
        available().clone()?;
        let mut code = Vec::with_capacity(40);
        let mut aimed = [0; 2];
        code.extend([
            load(4),
            jump(libc::BPF_JEQ, ARCH, 1, 0),
            give(ALLOW),
            load(0),
        ]);
        #[cfg(target_arch = "x86_64")]
        let opens = [(libc::SYS_openat, 2), (libc::SYS_open, 1)];
        #[cfg(target_arch = "aarch64")]
        let opens = [(libc::SYS_openat, 2)];
        for (call, flags) in opens {
            code.extend([
                jump(libc::BPF_JEQ, call as u32, 0, 6),
                load(argument(flags)),
                jump(libc::BPF_JSET, NO_READ as u32, 3, 0),
                statement(
                    libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
                    libc::O_ACCMODE as u32,
                ),
                jump(libc::BPF_JEQ, libc::O_WRONLY as u32, 1, 0),
                give(ASK),
                give(ALLOW),
            ]);
        }
        // The program's own start is not asked about: whoever would answer waits for it. It is known by the address of
        // its name, which `aim` fills in.
        let at = code.len();
        code.extend([
            jump(libc::BPF_JEQ, libc::SYS_execve as u32, 0, 6),
            load(argument(0)),
            jump(libc::BPF_JEQ, 0, 0, 2),
            load(argument(0) + 4),
            jump(libc::BPF_JEQ, 0, 1, 0),
            give(ASK),
            give(ALLOW),
        ]);
        aimed.copy_from_slice(&[at + 2, at + 4]);
        // Asked about as well: where relative paths begin from then on.
        for call in [
            libc::SYS_openat2,
            libc::SYS_execveat,
            libc::SYS_chdir,
            libc::SYS_fchdir,
        ] {
            code.extend([jump(libc::BPF_JEQ, call as u32, 0, 1), give(ASK)]);
        }
        code.push(give(ALLOW));
        Ok(Self {
            code,
            aimed,
            listener: -libc::EINVAL,
        })
    }

    /// Lets the `execve` of this very string pass.
    pub(in crate::worker) fn aim(&mut self, file: *const libc::c_char) {
        let address = file as u64;
        self.code[self.aimed[0]].k = address as u32;
        self.code[self.aimed[1]].k = (address >> 32) as u32;
    }

    /// Puts the filter over the calling process. System calls only, for use in a child that shares orch's descriptors.
    pub(in crate::worker) unsafe fn install(&mut self) {
        let program = libc::sock_fprog {
            len: self.code.len() as u16,
            filter: self.code.as_mut_ptr(),
        };
        // A signal must not make a call fail that orch is looking at.
        let flags =
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        // SAFETY: the program is valid for the length of the calls.
        let (listener, errno) = unsafe {
            let set = || {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    flags,
                    &raw const program,
                )
            };
            let mut listener = set();
            if listener < 0 && *libc::__errno_location() == libc::EACCES {
                // Without privileges a filter is only for those who give up gaining any.
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                listener = set();
            }
            (listener as i32, *libc::__errno_location())
        };
        let result = if listener < 0 { -errno } else { listener };
        // SAFETY: a valid field. Volatile: orch's compiler does not see this write.
        unsafe { std::ptr::write_volatile(&raw mut self.listener, result) };
    }

    /// The asking end, after the program was started.
    pub(in crate::worker) fn watch(self) -> Result<Watch, String> {
        // SAFETY: a valid field, written by the child.
        match unsafe { std::ptr::read_volatile(&raw const self.listener) } {
            // SAFETY: the descriptor is fresh and nobody's yet.
            listener @ 0.. => Ok(Watch::new(unsafe { OwnedFd::from_raw_fd(listener) })),
            error => Err(format!(
                "the kernel refuses the filter: {}",
                io::Error::from_raw_os_error(-error)
            )),
        }
    }
}

/// Whether this kernel's questions have the form that is known here.
fn available() -> &'static Result<(), String> {
    static AVAILABLE: OnceLock<Result<(), String>> = OnceLock::new();
    AVAILABLE.get_or_init(|| {
        let mut sizes = libc::seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: the structure is valid for the length of the call.
        let code = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0,
                &raw mut sizes,
            )
        };
        if code != 0 {
            return Err(format!(
                "the kernel does not tell: {}",
                io::Error::last_os_error()
            ));
        }
        let known = (
            size_of::<libc::seccomp_notif>(),
            size_of::<libc::seccomp_notif_resp>(),
        );
        let told = (
            usize::from(sizes.seccomp_notif),
            usize::from(sizes.seccomp_notif_resp),
        );
        if told == known {
            Ok(())
        } else {
            Err("the kernel's questions have a form that is not known".into())
        }
    })
}

/// The kernel's questions about one program and all that it starts.
pub(in crate::worker) struct Watch(OwnedFd);

impl Watch {
    fn new(listener: OwnedFd) -> Self {
        // The program and orch take turns, so both may stay on one core. An older kernel does not know this wish.
        // SAFETY: takes no pointers.
        unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        Self(listener)
    }

    /// Readable when there is a question; hung up when everything under the filter has ended.
    pub(in crate::worker) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn events(&self, patience: Duration) -> io::Result<libc::c_short> {
        let mut one = [readable(self.fd())];
        poll(&mut one, patience)?;
        Ok(one[0].revents)
    }

    /// Answers one question, after looking at the path.
    pub(in crate::worker) fn answer(&self, reads: &mut Reads<'_>) {
        self.answer_one(|asked| {
            if [libc::SYS_chdir, libc::SYS_fchdir].contains(&asked.data.nr.into()) {
                reads.moves();
            } else if let Some(path) = path_of(asked, reads) {
                reads.note(&path);
            }
        });
    }

    fn answer_one(&self, look: impl FnOnce(&libc::seccomp_notif)) {
        // SAFETY: all-zero structures are valid, and live as long as the calls. A process that died while it was asked
        // about makes both calls fail, and nothing is to be done then.
        unsafe {
            let mut asked: libc::seccomp_notif = std::mem::zeroed();
            if libc::ioctl(self.fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) != 0 {
                return;
            }
            look(&asked);
            let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            let mut answer = libc::seccomp_notif_resp {
                id: asked.id,
                val: 0,
                error: 0,
                flags,
            };
            libc::ioctl(self.fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
        }
    }

    /// Whether everything under the filter ends within `patience`.
    pub(in crate::worker) fn is_over(&self, patience: Duration, reads: &mut Reads<'_>) -> bool {
        let start = Instant::now();
        loop {
            let left = patience.saturating_sub(start.elapsed());
            match self.events(left) {
                Err(_) => return false,
                Ok(events) if events & libc::POLLHUP != 0 => return true,
                Ok(events) if events & libc::POLLIN != 0 => self.answer(reads),
                Ok(_) => {}
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Answers what processes ask that outlived their step, for as long as orch lives: unanswered, they would hang.
    pub(in crate::worker) fn answer_the_rest(self) {
        let serve = move || {
            while let Ok(events) = self.events(Duration::from_secs(3600))
                && events & libc::POLLHUP == 0
            {
                if events & libc::POLLIN != 0 {
                    self.answer_one(|_| {});
                }
            }
        };
        // Without a thread the descriptor closes, and the processes are refused instead of left hanging.
        let _ = std::thread::Builder::new()
            .name("outlived".into())
            .stack_size(64 * 1024)
            .spawn(serve);
    }
}

/// The absolute path that a call names, unless it is of no interest.
fn path_of(asked: &libc::seccomp_notif, reads: &Reads<'_>) -> Option<Vec<u8>> {
    let args = &asked.data.args;
    let number = libc::c_long::from(asked.data.nr);
    #[cfg(target_arch = "x86_64")]
    let has_no_folder = number == libc::SYS_execve || number == libc::SYS_open;
    #[cfg(not(target_arch = "x86_64"))]
    let has_no_folder = number == libc::SYS_execve;
    let (folder, address) = if has_no_folder {
        (libc::AT_FDCWD, args[0])
    } else {
        (args[0] as i32, args[1])
    };
    let mut path = read_string(asked.pid as i32, address)?;
    if path.is_empty() {
        return None; // an open descriptor: whatever it is was seen when it was opened
    }
    if path[0] != b'/' {
        let base = match (folder, reads.start()) {
            (libc::AT_FDCWD, Some(_)) if !path.contains(&b'/') => return None, // its own
            (libc::AT_FDCWD, Some(start)) => start.to_owned(),
            (libc::AT_FDCWD, None) => fs::read_link(format!("/proc/{}/cwd", asked.pid)).ok()?,
            _ => fs::read_link(format!("/proc/{}/fd/{folder}", asked.pid)).ok()?,
        };
        let mut whole = base.into_os_string().into_encoded_bytes();
        whole.push(b'/');
        whole.append(&mut path);
        path = whole;
    }
    (path[0] == b'/' && !reads.is_system(&path)).then_some(path)
}

/// A string in the memory of a process, up to the longest path that there is.
fn read_string(pid: i32, address: u64) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut bytes = [0_u8; libc::PATH_MAX as usize];
    // What lies behind the end of a page may not be there, so it is read as a part of its own.
    let first = PAGE - address % PAGE;
    let rest = bytes.len() as u64 - first.min(bytes.len() as u64);
    let part = |at: u64, length: u64| libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: length as usize,
    };
    let parts = [
        part(address, first.min(bytes.len() as u64)),
        part(address + first, rest),
    ];
    let into = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the local buffer is as long as it is said to be; the other process's memory is only read.
    let read = unsafe {
        libc::process_vm_readv(
            pid,
            &into,
            1,
            parts.as_ptr(),
            parts.len() as libc::c_ulong,
            0,
        )
    };
    let read = usize::try_from(read).ok()?;
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    Some(bytes[..end].to_vec())
}
