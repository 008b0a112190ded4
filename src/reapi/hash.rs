//! Digests as a server counts them: by the function that both sides speak.

use std::io::Read as _;
use std::path::Path;

use crate::base::digest::Sha256;
use crate::base::{Hasher, fs as bfs};
use crate::reapi::fault::Fault;
use crate::reapi::proto::{Digest, digest_function::Value};

/// A digest function of the API that orch speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Blake3,
    Sha256,
}

impl Function {
    /// That of a server which executes by one and offers these. Its own goes before a faster one: NativeLink 1.6.6 offers
    /// BLAKE3, and then checks what comes in a batch by its own.
    pub(super) fn of_server(own: i32, offered: &[i32]) -> Option<Self> {
        let of_number = |number: i32| {
            [Self::Blake3, Self::Sha256]
                .into_iter()
                .find(|known| known.number() == number)
        };
        let own = Some(own).filter(|own| offered.contains(own));
        own.iter()
            .chain(offered)
            .find_map(|number| of_number(*number))
    }

    pub(super) fn number(self) -> i32 {
        match self {
            Self::Blake3 => Value::Blake3.into(),
            Self::Sha256 => Value::Sha256.into(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }

    /// What stands before a hash in a resource's name. The API leaves it out for the functions that it had first.
    pub(super) fn prefix(self) -> &'static str {
        if self == Self::Sha256 { "" } else { "blake3/" }
    }

    pub fn of(self, bytes: &[u8]) -> Digest {
        let mut summer = self.summer();
        summer.update(bytes);
        summer.digest()
    }

    pub fn of_file(self, path: &Path) -> Result<Digest, Fault> {
        let (mut file, meta) = bfs::open_regular(path).map_err(Fault::io("read", path))?;
        // Most are small, and each job thread keeps what it once had.
        let mut summer = self.summer();
        let mut buffer = vec![0; meta.len().clamp(1, 1 << 20) as usize];
        loop {
            match file.read(&mut buffer).map_err(Fault::io("read", path))? {
                0 => return Ok(summer.digest()),
                read => summer.update(&buffer[..read]),
            }
        }
    }

    pub(super) fn summer(self) -> Summer {
        let state = match self {
            Self::Blake3 => State::Blake3(Box::default()),
            Self::Sha256 => State::Sha256(Sha256::default()),
        };
        Summer { state, size: 0 }
    }
}

/// Digest of what comes piece by piece.
pub(super) struct Summer {
    state: State,
    size: i64,
}

enum State {
    Blake3(Box<Hasher>),
    Sha256(Sha256),
}

impl Summer {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as i64;
        match &mut self.state {
            State::Blake3(hasher) => hasher.update(bytes),
            State::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn size(&self) -> i64 {
        self.size
    }

    pub(super) fn digest(self) -> Digest {
        let hash = match self.state {
            State::Blake3(hasher) => hasher.digest().to_string(),
            State::Sha256(hasher) => hasher.hex(),
        };
        Digest {
            hash,
            size_bytes: self.size,
        }
    }
}
