//! Instructions of the kernel's packet filters, in which seccomp's rules are written.

pub fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// A comparison with `k`; `jt` and `jf` are how many instructions to skip where it holds and where it does not.
pub fn jump(test: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt,
        jf,
        k,
    }
}

/// Loads a word of what the kernel says of a call: its number at 0, the architecture at 4, and [`argument`]s.
pub fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// The offset of the low half of an argument.
pub fn argument(number: u32) -> u32 {
    16 + 8 * number
}

pub fn give(verdict: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, verdict)
}

/// The architecture of this program's system calls, as the kernel numbers it.
#[cfg(target_arch = "x86_64")]
pub const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
pub const ARCH: u32 = 0xC000_00B7;
