//! Privileges of root that a child does not keep: it may do to files what their modes forbid, and nothing to the system.
//!
//! Without them root is what any user is to the rest of the machine: no devices are made, no keys typed into a terminal,
//! no other process is looked into, no raw packets are sent.

use std::io;

/// Numbers of `<linux/capability.h>`: changing owners, passing over modes, acting as an owner, keeping set-group bits.
const KEPT: [u32; 4] = [0, 1, 3, 4];
/// `_LINUX_CAPABILITY_VERSION_3`, with sets of 64 bits.
const VERSION: u32 = 0x2008_0522;
const MOST: u32 = 63;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// The low or the high half of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up all privileges of the calling process but those that are kept, for good. System calls only.
pub(super) fn drop_all() -> io::Result<()> {
    let kept = KEPT.iter().fold(0, |bits, number| bits | 1 << number);
    let mut header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the structures are the kernel's own and live as long as the calls.
    let code = unsafe {
        for capability in 0..=MOST {
            // What an executed program could gain. Whoever may not lower that has nothing to lower.
            if !KEPT.contains(&capability) {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
        }
        if libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        sets[0].effective &= kept;
        sets[0].permitted &= kept;
        sets[0].inheritable &= kept;
        sets[1] = Sets::default();
        libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr())
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
