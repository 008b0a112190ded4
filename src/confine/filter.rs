//! Calls that a child may not make: a seccomp filter beside Landlock, which knows files, and TCP by its usual name alone.
//!
//! No child types into a terminal: what it typed there, the user's shell would execute. Of a child without a network,
//! MPTCP and vendors' families reach other machines without being TCP, a first packet can carry data before a connection
//! is refused, and io_uring makes sockets without a call that a filter sees. All of that is refused by the errors of a
//! kernel that lacks it, for which programs are prepared.

use std::io;

use super::bpf::{ARCH, argument, give, jump, load};

/// `MSG_FASTOPEN` of `<linux/socket.h>`.
const FAST_OPEN: u32 = 0x2000_0000;
/// i386's calls, which a program for x86-64 can make: all of sockets in one, and those of its own.
#[cfg(target_arch = "x86_64")]
const I386: (u32, [u32; 5]) = (0x4000_0003, [102, 345, 359, 369, 370]);
#[cfg(target_arch = "x86_64")]
const I386_IOCTL: u32 = 54;
/// The first number of the calls of x86-64's variant with short pointers.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

const fn refuse(errno: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// `TIOCSTI` types a character, `TIOCLINUX` pastes a selection.
const TYPING: [u32; 2] = [0x5412, 0x541C];

/// The instructions that refuse a call which types into a terminal. This architecture numbers it `ioctl`, and its
/// number is loaded.
fn no_typing(ioctl: u32) -> [libc::sock_filter; 6] {
    [
        jump(libc::BPF_JEQ, ioctl, 0, 5),
        load(argument(1)),
        jump(libc::BPF_JEQ, TYPING[0], 1, 0),
        jump(libc::BPF_JEQ, TYPING[1], 0, 1),
        give(refuse(libc::EPERM)),
        give(ALLOW),
    ]
}

/// The filter's program, which leaves sockets free for a child that has a network.
pub(super) fn program(has_network: bool) -> Vec<libc::sock_filter> {
    let mut code = vec![load(4)];
    #[cfg(target_arch = "x86_64")]
    {
        let (arch, calls) = I386;
        code.push(jump(libc::BPF_JEQ, arch, 0, 8 + 2 * calls.len() as u8));
        code.push(load(0));
        code.extend(no_typing(I386_IOCTL));
        for call in calls {
            code.extend([
                jump(libc::BPF_JEQ, call, 0, 1),
                give(refuse(libc::EAFNOSUPPORT)),
            ]);
        }
        code.push(give(ALLOW));
    }
    code.extend([jump(libc::BPF_JEQ, ARCH, 1, 0), give(ALLOW), load(0)]);
    #[cfg(target_arch = "x86_64")]
    code.extend([jump(libc::BPF_JGE, X32, 0, 1), give(refuse(libc::ENOSYS))]);
    code.extend(no_typing(libc::SYS_ioctl as u32));
    if has_network {
        code.push(give(ALLOW));
        return code;
    }
    let io_uring = libc::SYS_io_uring_setup as u32;
    code.extend([
        jump(libc::BPF_JEQ, io_uring, 0, 1),
        give(refuse(libc::ENOSYS)),
    ]);
    // The flags of what is sent.
    for (call, flags) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        code.extend([
            jump(libc::BPF_JEQ, call as u32, 0, 4),
            load(argument(flags)),
            jump(libc::BPF_JSET, FAST_OPEN, 0, 1),
            give(refuse(libc::EOPNOTSUPP)),
            give(ALLOW),
        ]);
    }
    let usual = [libc::AF_UNIX, libc::AF_NETLINK].map(|family| family as u32);
    let internet = [libc::AF_INET, libc::AF_INET6].map(|family| family as u32);
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| protocol as u32);
    code.extend([
        jump(libc::BPF_JEQ, libc::SYS_socket as u32, 0, 12),
        load(argument(0)),
        jump(libc::BPF_JEQ, usual[0], 8, 0),
        jump(libc::BPF_JEQ, usual[1], 7, 0),
        jump(libc::BPF_JEQ, internet[0], 2, 0),
        jump(libc::BPF_JEQ, internet[1], 1, 0),
        give(refuse(libc::EAFNOSUPPORT)),
        load(argument(2)),
        jump(libc::BPF_JEQ, protocols[0], 2, 0),
        jump(libc::BPF_JEQ, protocols[1], 1, 0),
        jump(libc::BPF_JEQ, protocols[2], 0, 1),
        give(ALLOW),
        give(refuse(libc::EPROTONOSUPPORT)),
        give(ALLOW),
    ]);
    code
}

/// Puts the filter over the calling process, which can gain no privileges any more. System calls only.
pub(super) fn enter(code: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: code.len() as u16,
        filter: code.as_ptr().cast_mut(),
    };
    // Without the flag, older kernels slow all memory accesses of the child down.
    // SAFETY: the program is valid for the length of the call, which only reads it.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::confine::Grants;

    /// What a Python server is handed; `python/tests/test_confine.py` installs it.
    #[test]
    fn the_golden_grants_of_a_python_job_are_current() {
        let grants = serde_json::to_string(&Grants::default()).unwrap() + "\n";
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/confine/grants.json"
        );
        if std::env::var_os("ORCH_BLESS").is_some() {
            std::fs::write(path, &grants).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).is_ok_and(|text| text == grants),
            "ORCH_BLESS=1 cargo test --lib confine"
        );
    }
}
