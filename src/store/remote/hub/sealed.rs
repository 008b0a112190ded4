//! A result as it travels: a line that says what it is and signs it, then the record and its tree's manifest. Knows
//! nothing of where it comes from and believes none of it.

use serde::{Deserialize, Serialize};

use crate::base::{Digest, Secret, ensure};
use crate::record::Record;
use crate::store::Manifest;
use crate::store::entry::Held;
use crate::store::remote::hub::trouble::Refusal;

/// The beginning of every result. Then a space, the digest of the body, a space, the signature or `-`, a line's end.
const WORD: &[u8] = b"orch-result-2";
const HEAD: usize = 13 + 1 + 64 + 1 + 64 + 1;
/// More than this no result has: a manifest of 100,000 files is 15 MB.
pub(super) const MOST: u64 = 64 << 20;
/// A claim above this is not believed, whatever room there is.
const MOST_TREE: u64 = 1 << 40;
const MOST_FILES: usize = 1 << 20;

/// Written of references, read as values.
#[derive(Serialize, Deserialize)]
struct Body<R, M> {
    record: R,
    manifest: Option<M>,
}

pub(super) fn seal(
    record: &Record,
    manifest: Option<&Manifest>,
    secret: Option<&Secret>,
) -> Vec<u8> {
    let body = serde_json::to_vec(&Body { record, manifest }).expect("BUG: a record serialises");
    let code = secret.map_or_else(|| "-".repeat(64), |secret| secret.code(&body).to_string());
    let word = str::from_utf8(WORD).expect("BUG: the word is ASCII");
    let mut bytes = format!("{word} {} {code}\n", Digest::of(&body)).into_bytes();
    bytes.extend(body);
    bytes
}

/// The record and the tree of a result, after everything about them was verified that can be without the content.
pub(super) fn open(
    bytes: &[u8],
    key: &Digest,
    secret: Option<&Secret>,
) -> Result<(Record, Option<Manifest>), Refusal> {
    let (head, body) = bytes.split_at_checked(HEAD).ok_or(Refusal::Unreadable)?;
    let head = head.strip_suffix(b"\n").ok_or(Refusal::Unreadable)?;
    let mut words = head.split(|byte| *byte == b' ');
    let mut word = || {
        words
            .next()
            .and_then(|word| str::from_utf8(word).ok())
            .ok_or(Refusal::Unreadable)
    };
    let is_result = word()?.as_bytes() == WORD && word()?.parse::<Digest>() == Ok(Digest::of(body));
    ensure(is_result, || Refusal::Unreadable)?;
    let code = word()?;
    if let Some(secret) = secret {
        let code = code.parse::<Digest>().map_err(|_| Refusal::Unsigned)?;
        ensure(secret.is_code(body, &code), || Refusal::WrongSignature)?;
    }
    let Body::<Record, Manifest> { record, manifest } =
        serde_json::from_slice(body).map_err(|_| Refusal::Unreadable)?;
    ensure(record.key.digest() == *key, || Refusal::OtherKey)?;
    ensure(Held::of(record.outcome) != Held::No, || Refusal::NoSuccess)?;
    // What passed has made a tree, if an empty one; what was refused has made none.
    let output = manifest.as_ref().map(Manifest::digest);
    let is_made = record.outcome.is_made();
    ensure(
        record.output == output && output.is_some() == is_made,
        || Refusal::OtherTree,
    )?;
    manifest.as_ref().map_or(Ok(()), is_sound)?;
    Ok((record, manifest))
}

/// Its files can be laid out below a folder, and nowhere else.
fn is_sound(manifest: &Manifest) -> Result<(), Refusal> {
    let size = manifest
        .files
        .iter()
        .try_fold(0u64, |sum, file| sum.checked_add(file.size));
    let is_small = manifest.files.len() <= MOST_FILES && size.is_some_and(|size| size <= MOST_TREE);
    ensure(is_small, || Refusal::TooLarge)?;
    ensure(manifest.fault().is_none(), || Refusal::BadPath)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyDoc;
    use crate::record::Outcome;
    use crate::store::ManifestFile;

    fn file(path: &str, content: &[u8]) -> ManifestFile {
        let size = content.len() as u64;
        let digest = Digest::of(content);
        ManifestFile {
            path: path.into(),
            size,
            digest,
            executable: false,
        }
    }

    fn result(files: Vec<ManifestFile>) -> (Record, Manifest) {
        let manifest = Manifest { files };
        let mut key = KeyDoc::default();
        key.set("param", "x");
        let record = Record {
            step: "command:x".into(),
            key,
            outcome: Outcome::Pass,
            output: Some(manifest.digest()),
            started: "2026-01-02T03:04:05Z".into(),
            host: "there".into(),
            ..Record::default()
        };
        (record, manifest)
    }

    #[track_caller]
    fn refused(record: &Record, manifest: Option<&Manifest>, why: Refusal) {
        let key = result(Vec::new()).0.key.digest();
        assert_eq!(
            open(&seal(record, manifest, None), &key, None).map(drop),
            Err(why)
        );
    }

    #[test]
    fn a_sound_result_arrives_whole_and_every_changed_byte_is_found() {
        let (record, manifest) = result(vec![file("a/b", b"1"), file("c", b"2")]);
        let key = record.key.digest();
        let secret = Secret::of("test", "words");
        for secret in [None, Some(&secret)] {
            let bytes = seal(&record, Some(&manifest), secret);
            let (got, tree) = open(&bytes, &key, secret).unwrap();
            assert_eq!(
                (got.host.as_str(), got.output, tree.as_ref()),
                ("there", record.output, Some(&manifest))
            );
            // Without a secret the signature is not looked at.
            let signature = HEAD - 65..HEAD - 1;
            for at in (0..bytes.len()).filter(|at| secret.is_some() || !signature.contains(at)) {
                let mut bad = bytes.clone();
                bad[at] ^= 1;
                assert!(open(&bad, &key, secret).is_err(), "byte {at}");
            }
            for end in 0..bytes.len() {
                assert!(open(&bytes[..end], &key, secret).is_err(), "cut at {end}");
            }
        }
        assert!(
            open(&seal(&record, Some(&manifest), Some(&secret)), &key, None).is_ok(),
            "signed, and nobody asks"
        );
    }

    #[test]
    fn with_a_secret_only_those_who_share_it_are_believed() {
        let (record, manifest) = result(Vec::new());
        let key = record.key.digest();
        let ours = Secret::of("test", "ours");
        let theirs = Secret::of("test", "theirs");
        let open_as = |made: Option<&Secret>| {
            open(&seal(&record, Some(&manifest), made), &key, Some(&ours)).map(drop)
        };
        assert_eq!(open_as(Some(&ours)), Ok(()));
        assert_eq!(open_as(Some(&theirs)), Err(Refusal::WrongSignature));
        assert_eq!(open_as(None), Err(Refusal::Unsigned));
    }

    #[test]
    fn a_result_of_something_else_is_refused() {
        let (record, manifest) = result(vec![file("a", b"1")]);
        let mut other = record.clone();
        other.key.set("param", "y");
        refused(&other, Some(&manifest), Refusal::OtherKey);
        refused(
            &Record {
                outcome: Outcome::Fail,
                ..record.clone()
            },
            Some(&manifest),
            Refusal::NoSuccess,
        );
        refused(
            &Record {
                outcome: Outcome::SkipUnsupported,
                ..record.clone()
            },
            Some(&manifest),
            Refusal::OtherTree,
        );
        refused(
            &Record {
                output: Some(Digest::of(b"x")),
                ..record.clone()
            },
            Some(&manifest),
            Refusal::OtherTree,
        );
        refused(&record, None, Refusal::OtherTree);
        refused(
            &Record {
                output: None,
                ..record
            },
            None,
            Refusal::OtherTree,
        );
    }

    #[test]
    fn no_path_leads_out_of_the_tree_and_no_claim_is_boundless() {
        let bad = [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "./a",
            "a//b",
            "a/",
            "a\0b",
            "a\\..\\b",
            "/",
        ];
        for path in bad {
            let (record, manifest) = result(vec![file(path, b"1")]);
            refused(&record, Some(&manifest), Refusal::BadPath);
        }
        for pair in [["a", "a"], ["a", "a/b"], ["a/b/c", "a/b"]] {
            let (record, manifest) = result(pair.map(|path| file(path, b"1")).to_vec());
            refused(&record, Some(&manifest), Refusal::BadPath);
        }
        let (record, manifest) = result(vec![
            file("a-b", b"1"),
            file("a/b", b"2"),
            file("é ü", b"3"),
        ]);
        assert!(
            open(
                &seal(&record, Some(&manifest), None),
                &record.key.digest(),
                None
            )
            .is_ok()
        );
        for sizes in [[MOST_TREE, 1], [u64::MAX, u64::MAX]] {
            let files = ["a", "b"]
                .into_iter()
                .zip(sizes)
                .map(|(path, size)| ManifestFile {
                    size,
                    ..file(path, b"")
                });
            let (record, manifest) = result(files.collect());
            refused(&record, Some(&manifest), Refusal::TooLarge);
        }
    }

    #[test]
    fn garbage_is_no_result() {
        let key = Digest::of(b"key");
        let deep = "[".repeat(1 << 20);
        for body in ["", "{}", "null", "{\"record\":1}", deep.as_str()] {
            let bytes = format!(
                "orch-result-2 {} {}\n{body}",
                Digest::of(body.as_bytes()),
                "-".repeat(64)
            );
            assert_eq!(
                open(bytes.as_bytes(), &key, None).map(drop),
                Err(Refusal::Unreadable)
            );
        }
        assert_eq!(
            open(b"<html>not found</html>", &key, None).map(drop),
            Err(Refusal::Unreadable)
        );
        assert_eq!(
            open(&[0xff; 500], &key, None).map(drop),
            Err(Refusal::Unreadable)
        );
    }
}
