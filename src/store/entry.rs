//! One entry of the log: a fixed header, then a payload. Both carry a checksum of their own.
//!
//! | bytes | holds |
//! |---|---|
//! | 0..4 | [`MAGIC`], by which a reader finds its way again behind a damaged entry |
//! | 4..8 | length of the payload, little-endian like every number here |
//! | 8 | [`Kind`] |
//! | 9 | [`Held`] |
//! | 10 | 1 if it is of an execution earlier than what was known of its step: it answers for its key, and is not the newest |
//! | 11 | 1 if it is a failure that stands ([`Held::Failed`]); byte 9 is 0 then, so that an orch which knows of no such failures executes the step |
//! | 16..24 | place of the step's previous record + 1; 0 if there is none |
//! | 24..56 | digest: the key of a record, the name of a tree |
//! | 56..88 | the tree that a record's step made; zeros if none |
//! | 88..104 | beginning of the digest of the step's name |
//! | 104..112 | beginning of the payload's digest |
//! | 112..120 | beginning of the digest of all bytes above |

use crate::base::Digest;
use crate::record::Outcome;

pub(super) const MAGIC: [u8; 4] = *b"orc\x02";
pub(super) const HEADER: usize = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The payload is a manifest.
    Tree = 1,
    /// The payload is a record.
    Record = 2,
    /// The tree of this name is gone or was found damaged.
    Dropped = 3,
}

/// Whether a record answers for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    No = 0,
    Passed = 1,
    /// The vendor's tool refused, and would again: an answer too, though no success.
    Refused = 2,
    /// It succeeded at a later attempt: its tree is as good as any, and its record says what happened before.
    Flaky = 3,
    /// The verdict decides nothing, and would decide nothing again.
    Indecisive = 4,
    /// It failed, and would again: reported instead of being executed, though nothing was made.
    Failed = 5,
}

/// Those that answer, with the outcomes that they stand for.
const ANSWERS: [(Held, Outcome); 4] = [
    (Held::Passed, Outcome::Pass),
    (Held::Refused, Outcome::SkipUnsupported),
    (Held::Flaky, Outcome::Flaky),
    (Held::Indecisive, Outcome::Indecisive),
];

impl Held {
    /// Whether what was made, or that nothing can be made, may be handed to others. A failure stays where it happened.
    pub(super) fn answers(self) -> bool {
        self.outcome().is_some()
    }

    pub(super) fn of(outcome: Outcome) -> Self {
        ANSWERS
            .iter()
            .find(|(_, of)| *of == outcome)
            .map_or(Self::No, |(held, _)| *held)
    }

    pub(super) fn outcome(self) -> Option<Outcome> {
        ANSWERS
            .iter()
            .find(|(held, _)| *held == self)
            .map(|(_, outcome)| *outcome)
    }

    fn parse(number: u8, has_failed: bool) -> Option<Self> {
        match number {
            0 => Some(if has_failed { Self::Failed } else { Self::No }),
            _ => ANSWERS
                .iter()
                .map(|(held, _)| *held)
                .find(|held| *held as u8 == number),
        }
    }
}

/// An entry with its payload: read and verified, or to be appended.
pub(super) struct Entry {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

impl Entry {
    pub(super) fn new(kind: Kind, id: Digest, payload: Vec<u8>) -> Self {
        Self {
            header: Header::new(kind, id, &payload),
            payload,
        }
    }
}

/// The beginning of a digest: enough to tell steps apart and to find chance damage.
pub(super) type Short = [u8; 16];

pub(super) fn short(digest: &Digest) -> Short {
    digest.bytes()[..16]
        .try_into()
        .expect("BUG: a digest has 32 bytes")
}

pub(super) fn step_id(name: &str) -> Short {
    short(&Digest::of(name.as_bytes()))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) held: Held,
    pub(super) aside: bool,
    pub(super) len: u32,
    pub(super) previous: Option<u64>,
    pub(super) id: Digest,
    pub(super) output: Option<Digest>,
    pub(super) step: Short,
    payload_check: [u8; 8],
}

fn check(bytes: &[u8]) -> [u8; 8] {
    Digest::of(bytes).bytes()[..8]
        .try_into()
        .expect("BUG: a digest has 32 bytes")
}

impl Header {
    pub(super) fn record(
        key: Digest,
        step: Short,
        held: Held,
        output: Option<Digest>,
        payload: &[u8],
    ) -> Self {
        Self {
            held,
            output,
            step,
            ..Self::new(Kind::Record, key, payload)
        }
    }

    fn new(kind: Kind, id: Digest, payload: &[u8]) -> Self {
        let len = u32::try_from(payload.len()).expect("BUG: an entry of the log is below 4 GiB");
        let payload_check = check(payload);
        Self {
            kind,
            held: Held::No,
            aside: false,
            len,
            previous: None,
            id,
            output: None,
            step: [0; 16],
            payload_check,
        }
    }

    pub(super) fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = if self.held == Held::Failed {
            Held::No
        } else {
            self.held
        } as u8;
        bytes[10] = u8::from(self.aside);
        bytes[11] = u8::from(self.held == Held::Failed);
        bytes[16..24].copy_from_slice(&self.previous.map_or(0, |at| at + 1).to_le_bytes());
        bytes[24..56].copy_from_slice(self.id.bytes());
        if let Some(output) = &self.output {
            bytes[56..88].copy_from_slice(output.bytes());
        }
        bytes[88..104].copy_from_slice(&self.step);
        bytes[104..112].copy_from_slice(&self.payload_check);
        let own = check(&bytes[..112]);
        bytes[112..].copy_from_slice(&own);
        bytes
    }

    /// None if these bytes are no header, or a damaged one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        if bytes[..4] != MAGIC || bytes[112..] != check(&bytes[..112]) {
            return None;
        }
        let word = |from: usize| {
            u64::from_le_bytes(bytes[from..from + 8].try_into().expect("BUG: 8 bytes"))
        };
        let digest = |from: usize| {
            Digest::from_bytes(bytes[from..from + 32].try_into().expect("BUG: 32 bytes"))
        };
        Some(Self {
            kind: [Kind::Tree, Kind::Record, Kind::Dropped]
                .into_iter()
                .find(|kind| *kind as u8 == bytes[8])?,
            held: Held::parse(bytes[9], bytes[11] == 1)?,
            aside: bytes[10] == 1,
            len: u32::from_le_bytes(bytes[4..8].try_into().expect("BUG: 4 bytes")),
            previous: word(16).checked_sub(1),
            id: digest(24),
            output: (bytes[56..88] != [0; 32]).then(|| digest(56)),
            step: bytes[88..104].try_into().expect("BUG: 16 bytes"),
            payload_check: bytes[104..112].try_into().expect("BUG: 8 bytes"),
        })
    }

    pub(super) fn is_payload(&self, payload: &[u8]) -> bool {
        payload.len() == self.len as usize && check(payload) == self.payload_check
    }

    /// Bytes from the start of this entry to that of the next.
    pub(super) fn span(&self) -> u64 {
        HEADER as u64 + u64::from(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_disk_and_every_flipped_bit_is_found() {
        let id = Digest::of(b"key");
        let header = Header {
            previous: Some(0),
            aside: true,
            ..Header::record(
                id,
                step_id("run:x"),
                Held::Refused,
                Some(Digest::of(b"tree")),
                b"payload",
            )
        };
        let bytes = header.to_bytes();
        assert_eq!(Header::parse(&bytes), Some(header.clone()));
        assert!(header.is_payload(b"payload") && !header.is_payload(b"Payload"));
        for bit in 0..HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn a_failure_that_stands_is_none_to_an_orch_that_does_not_know_of_it() {
        let header = Header::record(
            Digest::of(b"key"),
            step_id("run:x"),
            Held::Failed,
            None,
            b"payload",
        );
        let bytes = header.to_bytes();
        assert_eq!(bytes[9], Held::No as u8);
        assert_eq!(Header::parse(&bytes), Some(header));
        assert!(!Held::Failed.answers() && Held::Failed.outcome().is_none());
    }
}
