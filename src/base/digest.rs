//! blake3 digests: the only identity of content in orch. The only home of the blake3 crate. And SHA-256, for those who
//! compute a digest again without it: phones and generated tests.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use crate::base::fs;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A 32-byte blake3 digest, shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Digest of a regular file's content, on all cores if it is large.
    ///
    /// It is read and not mapped: a mapped file that is cut short meanwhile, or lies on a broken disk, ends the process by
    /// SIGBUS.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let (mut file, meta) = fs::open_regular(path)?;
        let mut hasher = blake3::Hasher::new();
        // One byte more than it should have, so that its end is met at once.
        let mut buffer = vec![0; meta.len().saturating_add(1).clamp(LITTLE, AT_ONCE) as usize];
        loop {
            let read = fill(&mut file, &mut buffer)?;
            if read < WORTH_SHARING {
                hasher.update(&buffer[..read]);
            } else {
                hasher.update_rayon(&buffer[..read]);
            }
            if read < buffer.len() {
                return Ok(Self(*hasher.finalize().as_bytes()));
            }
        }
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The first 12 hex digits, for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

/// SHA-256 of all that is read, as `sha256sum` writes it.
pub fn sha256(mut content: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::default();
    io::copy(&mut content, &mut hasher)?;
    Ok(hasher.hex())
}

/// SHA-256 of what comes piece by piece.
#[derive(Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 64 lower-case digits.
    pub fn hex(self) -> String {
        self.0
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl io::Write for Sha256 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much of a file is read before it is hashed, bytes: work for all cores, and still in their caches.
const AT_ONCE: u64 = 4 << 20;
/// Files of `/proc` say that they are empty.
const LITTLE: u64 = 4096;
/// Waking other threads for less takes longer than hashing it.
const WORTH_SHARING: usize = 128 << 10;

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Takes bytes as they come.
#[derive(Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// A key that makes and checks codes of authenticity; never shown.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The key for one purpose, from words that people share: another `purpose` makes another key of the same words.
    pub fn of(purpose: &'static str, words: &str) -> Self {
        Self(blake3::derive_key(purpose, words.as_bytes()))
    }

    /// Whoever lacks the key cannot make this for bytes of his own.
    pub fn code(&self, bytes: &[u8]) -> Digest {
        Digest(*blake3::keyed_hash(&self.0, bytes).as_bytes())
    }

    /// Compares in a time that reveals nothing about where codes differ.
    pub fn is_code(&self, bytes: &[u8], code: &Digest) -> bool {
        blake3::keyed_hash(&self.0, bytes) == blake3::Hash::from(code.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|e| format!("bad digest `{text}`: {e}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_its_bytes_its_words_and_its_purpose() {
        let secret = Secret::of("purpose", "words");
        let code = secret.code(b"bytes");
        assert!(secret.is_code(b"bytes", &code));
        assert!(!secret.is_code(b"Bytes", &code));
        assert!(!Secret::of("purpose", "other").is_code(b"bytes", &code));
        assert!(!Secret::of("other", "words").is_code(b"bytes", &code));
        assert!(
            !secret.is_code(b"bytes", &Digest::of(b"bytes")),
            "a plain digest is no code"
        );
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn sha256_is_that_of_every_other_program() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc".as_slice()).unwrap(), of_abc);
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes_whatever_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let around = |size: u64| [size - 1, size, size + 1];
        let sizes = [0, 1].into_iter().chain(
            [LITTLE, WORTH_SHARING as u64, AT_ONCE, 2 * AT_ONCE]
                .map(around)
                .concat(),
        );
        for size in sizes {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(
                Digest::of_file(&path).unwrap(),
                Digest::of(&bytes),
                "{size} bytes"
            );
        }
    }

    /// A mapped file would end this process by SIGBUS.
    #[test]
    fn a_file_that_is_cut_short_while_it_is_hashed_is_survived() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::time::{Duration, Instant};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    file.set_len(64 << 20).unwrap();
                    // Time for the other to meet it as it is, and too little to hash it.
                    std::thread::sleep(Duration::from_millis(2));
                    file.set_len(0).unwrap();
                }
            });
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(1) {
                Digest::of_file(&path).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn pieces_have_the_digest_of_the_whole() {
        let mut hasher = Hasher::default();
        hasher.update(b"by");
        hasher.update(b"tes");
        assert_eq!(hasher.digest(), Digest::of(b"bytes"));
    }
}
