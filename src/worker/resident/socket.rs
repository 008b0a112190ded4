//! Messages with descriptors between processes of one machine, over sockets that keep the bounds of messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recvmsg, sendmsg, shutdown, socket_with, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::worker::process::{poll, readable};

/// Bytes: the kernel's own bound of such a message is less.
const LONGEST: usize = 1 << 20;
/// The most descriptors of a message.
pub(super) const MOST_DESCRIPTORS: usize = 4;
const BACKLOG: i32 = 128;

/// One end of a connection.
#[derive(Debug)]
pub(in crate::worker) struct Channel(OwnedFd);

/// A message with its descriptors.
pub(super) struct Message {
    bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Message {
    pub(super) fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.bytes)?)
    }
}

pub(super) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = new()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

impl Channel {
    /// Never waits: a listener whose queue is full is an error.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let socket = new()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// The next connection that waits at a listener.
    pub(super) fn accept(listener: &OwnedFd) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self(accept_with(listener, flags)?))
    }

    /// Both ends of a connection.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), other))
    }

    pub(in crate::worker) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn borrow(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Process and user of the other end, at the time when it connected. The process is 0 where it cannot be seen.
    pub(super) fn peer(&self) -> io::Result<(i32, u32)> {
        let mut peer = libc::ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the pointers are valid for the length of the call, and the size is that of the structure.
        let code = unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut size,
            )
        };
        match code {
            0 => Ok((peer.pid, peer.uid)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends a message, or fails at once.
    pub(super) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "BUG: a message has too many descriptors");
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// The next message, if one is there. `UnexpectedEof` once the other end is closed, `WouldBlock` before one comes.
    pub(super) fn receive(&self) -> io::Result<Message> {
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags,
        )?;
        let descriptors = control
            .drain()
            .filter_map(|part| match part {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(received.bytes);
        Ok(Message { bytes, descriptors })
    }

    /// Has the other end see the connection closed. What has come can still be received.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    /// The next message, if it comes within `patience`.
    pub(super) fn receive_within(&self, patience: Duration) -> io::Result<Message> {
        poll(&mut [readable(self.fd())], patience)?;
        self.receive()
    }
}
