//! What an archive may say. Whoever wrote it may have meant harm: a complaint is given for everything that orch itself would
//! not have written. What the records claim can be checked by no one; an archive is as trustworthy as where it comes from.

use crate::base::{Digest, ensure};
use crate::record::{Outcome, Record};
use crate::store::Manifest;

const LONGEST_STEP: usize = 1024;

/// A manifest as the store makes it: sorted paths inside the tree, each a file and not also a folder.
pub(super) fn manifest(bytes: &[u8]) -> Result<Manifest, String> {
    let manifest = Manifest::parse(bytes).map_err(|e| format!("a manifest cannot be read: {e}"))?;
    let shown = Digest::of(bytes).short();
    let is_orchs = manifest.to_bytes() == bytes;
    ensure(is_orchs, || {
        format!("the manifest {shown} is not written as orch writes manifests")
    })?;
    match manifest.fault() {
        Some(what) => Err(format!("the manifest {shown} {what}")),
        None => Ok(manifest),
    }
}

/// A record that answers for its key, with a tree that the archive holds.
pub(super) fn record(bytes: &[u8], has_tree: impl Fn(&Digest) -> bool) -> Result<Record, String> {
    let record: Record =
        serde_json::from_slice(bytes).map_err(|e| format!("a record cannot be read: {e}"))?;
    let step = &record.step;
    let is_step = (1..=LONGEST_STEP).contains(&step.len()) && !step.contains(char::is_control);
    ensure(is_step, || format!("no step is called {step:?}"))?;
    let has_output = match record.outcome {
        Outcome::Pass | Outcome::Flaky => true,
        Outcome::SkipUnsupported | Outcome::Indecisive => false,
        other => {
            return Err(format!(
                "the record of {step} is {}, which answers for no key",
                other.label()
            ));
        }
    };
    let outcome = record.outcome.label();
    let found = if has_output { "no" } else { "a" };
    let otherwise = || format!("the record of {step} is {outcome} and has {found} tree");
    ensure(record.output.is_some() == has_output, otherwise)?;
    if let Some(tree) = record.output.filter(|tree| !has_tree(tree)) {
        return Err(format!(
            "the record of {step} names tree {}, which is not there",
            tree.short()
        ));
    }
    let is_date = record.started.parse::<jiff::Timestamp>().is_ok();
    ensure(is_date, || {
        format!("the record of {step} has no date: {:?}", record.started)
    })?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ManifestFile;

    fn complaint(paths: &[&str]) -> String {
        let file = |path: &&str| ManifestFile {
            path: (*path).into(),
            size: 1,
            digest: Digest::of(b"x"),
            executable: false,
        };
        let bytes = Manifest {
            files: paths.iter().map(file).collect(),
        }
        .to_bytes();
        manifest(&bytes).err().unwrap_or_default()
    }

    #[test]
    fn a_path_stays_inside_its_tree() {
        for good in [
            &["a"][..],
            &["a-b", "a/b", "a/c/d"],
            &["..a", "b..", "c.d"],
            &["ä \""],
        ] {
            assert_eq!(complaint(good), "", "{good:?}");
        }
        for bad in ["/a", "../a", "a//b", "a\0b", ""] {
            assert!(
                complaint(&[bad]).contains("names a file"),
                "{bad}: {}",
                complaint(&[bad])
            );
        }
        assert!(complaint(&["b", "a"]).contains("not sorted"));
        assert!(complaint(&["a", "a"]).contains("twice"));
        assert!(complaint(&["a", "a-", "a/b"]).contains("as a file and as a folder"));
    }

    #[test]
    fn a_manifest_in_other_words_is_none() {
        let good = Manifest { files: Vec::new() }.to_bytes();
        assert!(manifest(&good).is_ok());
        assert!(
            manifest(b"{ \"files\": [] }")
                .unwrap_err()
                .contains("not written as")
        );
        assert!(manifest(b"{").unwrap_err().contains("cannot be read"));
    }
}
