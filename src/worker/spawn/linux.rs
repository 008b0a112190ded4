//! Starting a program by `clone(CLONE_VM | CLONE_VFORK)`, as glibc's `posix_spawn` does, with what that cannot do.
//!
//! A fork copies the page tables of orch, which takes milliseconds once a plan is large. Here the child borrows orch's
//! memory until it executes the program, while the thread that started it stands still. So the child makes system calls
//! only; signals are blocked meanwhile, because a handler would run in the borrowed memory.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};

use super::{Program, Started, c_string};
use crate::base::process::die_with;
use crate::confine::Confinement;
use crate::worker::family;
use crate::worker::guard::{self, Slot};
use crate::worker::process::Group;
use crate::worker::reads::Filter;

const STACK: usize = 32 * 1024;

/// What the parent passes to the child, and what the child answers.
struct Told<'a> {
    file: *const libc::c_char,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    cwd: *const libc::c_char,
    output: RawFd,
    null: RawFd,
    parent: u32,
    place: &'a AtomicI32,
    filter: Option<&'a mut Filter>,
    confinement: Option<&'a Confinement>,
    /// Signals that would be handled, or are ignored by orch alone.
    handled: &'a [libc::c_int],
    /// Why the program could not be executed.
    errno: i32,
}

/// Starts `program`. A filter is given to it before its first instruction, or says afterwards why it was not.
pub(in crate::worker) fn start(
    program: &Program<'_>,
    mut filter: Option<&mut Filter>,
) -> io::Result<Started> {
    let file = program.file()?;
    let c_file = c_string(file.as_os_str())?;
    let mut argv = program
        .argv
        .iter()
        .map(|arg| c_string(arg.as_ref()))
        .collect::<io::Result<Vec<_>>>()?;
    let group = match execute(program, &c_file, &argv, filter.as_deref_mut()) {
        // A script without a first line that names its interpreter: the shell's, as `execvp` has it.
        Err(e) if e.raw_os_error() == Some(libc::ENOEXEC) => {
            let shell = c"/bin/sh";
            argv.splice(0..1, [shell.to_owned(), c_file]);
            execute(program, shell, &argv, filter)?
        }
        other => other?,
    };
    Ok(Started { group, file })
}

fn execute(
    program: &Program<'_>,
    file: &std::ffi::CStr,
    argv: &[CString],
    mut filter: Option<&mut Filter>,
) -> io::Result<Group> {
    let env = program.env.iter().map(|(name, value)| {
        let mut text = name.clone();
        text.push("=");
        text.push(value);
        c_string(&text)
    });
    let mark = c_string(format!("{}={}", guard::MARK, guard::mark()).as_ref());
    let env = env.chain([mark]).collect::<io::Result<Vec<_>>>()?;
    let cwd = c_string(program.cwd.as_os_str())?;
    let pointers = |all: &[CString]| {
        all.iter()
            .map(|one| one.as_ptr())
            .chain([ptr::null()])
            .collect::<Vec<_>>()
    };
    let argv = pointers(argv);
    let env = pointers(&env);
    let slot = Slot::take()?;
    if let Some(filter) = filter.as_deref_mut() {
        filter.aim(file.as_ptr());
    }
    let shares_files = if filter.is_some() {
        libc::CLONE_FILES
    } else {
        0
    };
    let mut told = Told {
        file: file.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: cwd.as_ptr(),
        output: program.output.as_raw_fd(),
        null: null()?,
        parent: std::process::id(),
        place: slot.place(),
        filter,
        confinement: program.confinement,
        handled: handled(),
        errno: 0,
    };
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let mut pidfd: RawFd = -1;
    let flags =
        libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | shares_files | libc::SIGCHLD;
    // SAFETY: the child uses the stack, `told` and what it points to only until it executes the program or exits, and
    // this thread goes on only then. The mask that is put back is the one that was there.
    let changing = family::changing();
    let (child, error) = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let top = stack.as_mut_ptr().add(stack.capacity()).cast();
        let child = libc::clone(
            become_program,
            top,
            flags,
            (&raw mut told).cast(),
            &raw mut pidfd,
        );
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        (child, error)
    };
    drop(changing);
    if child < 0 {
        return Err(error);
    }
    // SAFETY: the kernel put a descriptor there that is nobody's yet, or left it alone.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    let group = Group::of(child, pidfd, slot);
    // Volatile: what the child wrote, the compiler has not seen.
    // SAFETY: a valid field of a living structure.
    match unsafe { ptr::read_volatile(&raw const told.errno) } {
        0 => Ok(group),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The child. It never returns from a success.
extern "C" fn become_program(told: *mut c_void) -> libc::c_int {
    // SAFETY: it points to a structure that lives until this function is left. Only system calls are made.
    unsafe {
        let told = &mut *told.cast::<Told<'_>>();
        default_signals(told.handled);
        libc::setpgid(0, 0);
        // What loses its parent stays below it, where it is found.
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        die_with(told.parent);
        told.place.store(libc::getpid(), Ordering::SeqCst);
        // Before the filter, which asks about it: who would answer waits for the program to start.
        let mut ready = libc::chdir(told.cwd) == 0;
        if ready && let Some(filter) = &mut told.filter {
            // Its descriptor appears in the table that is still shared with orch.
            filter.install();
            ready = libc::unshare(libc::CLONE_FILES) == 0;
        }
        ready = ready
            && libc::dup2(told.null, 0) == 0
            && libc::dup2(told.output, 1) == 1
            && libc::dup2(told.output, 2) == 2
            && told
                .confinement
                .is_none_or(|confinement| confinement.enter().is_ok());
        if ready {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
            libc::execve(told.file, told.argv, told.env);
        }
        ptr::write_volatile(&raw mut told.errno, *libc::__errno_location());
        libc::_exit(127)
    }
}

/// Handlers would be called in borrowed memory, and Rust ignores SIGPIPE, which no program expects. What else orch
/// was told to ignore (`nohup`) stays ignored. Orch has set all that it sets when its first program starts.
fn handled() -> &'static [libc::c_int] {
    static HANDLED: LazyLock<Vec<libc::c_int>> = LazyLock::new(|| {
        let is_handled = |signal: &libc::c_int| {
            // SAFETY: the structure lives as long as the call; signals that cannot be asked about are errors, and left.
            let (code, action) = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                (
                    libc::sigaction(*signal, ptr::null(), &mut action),
                    action.sa_sigaction,
                )
            };
            code == 0
                && action != libc::SIG_DFL
                && (action != libc::SIG_IGN || *signal == libc::SIGPIPE)
        };
        (1..32).filter(is_handled).collect()
    });
    &HANDLED
}

unsafe fn default_signals(handled: &[libc::c_int]) {
    for signal in handled {
        // SAFETY: the structure lives as long as the call.
        unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, &default, ptr::null_mut());
        }
    }
}

fn null() -> io::Result<RawFd> {
    static NULL: LazyLock<Result<File, i32>> = LazyLock::new(|| {
        File::open("/dev/null").map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    });
    NULL.as_ref()
        .map(AsRawFd::as_raw_fd)
        .map_err(|code| io::Error::from_raw_os_error(*code))
}
