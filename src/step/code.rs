//! Digests of orch's own sources: editing a kind's implementation reruns its steps, and nothing else does.

use include_dir::{Dir, include_dir};

use crate::base::Digest;

static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/src");

/// Digest of the sources whose path below `src/` begins with one of `prefixes`. Tests are left out.
pub(super) fn digest(prefixes: &[&str]) -> Digest {
    let mut files = Vec::new();
    collect(&SOURCES, &mut files);
    files.sort_unstable_by_key(|(path, _)| *path);
    let mut lines = String::new();
    for prefix in prefixes {
        let matching: Vec<_> = files.iter().filter(|(path, _)| path.starts_with(prefix)).collect();
        assert!(!matching.is_empty(), "BUG: no source begins with `{prefix}`");
        for (path, content) in matching {
            lines.push_str(&format!("{path} {}\n", Digest::of(content)));
        }
    }
    Digest::of(lines.as_bytes())
}

fn collect<'a>(dir: &'a Dir<'_>, files: &mut Vec<(&'a str, &'a [u8])>) {
    for file in dir.files() {
        match file.path().to_str() {
            Some(path) if !path.contains("tests") => files.push((path, file.contents())),
            _ => {}
        }
    }
    for sub in dir.dirs() {
        collect(sub, files);
    }
}

/// [`digest`], computed once.
macro_rules! code_digest {
    ($($prefix:literal),+ $(,)?) => {{
        static DIGEST: std::sync::OnceLock<$crate::base::Digest> = std::sync::OnceLock::new();
        *DIGEST.get_or_init(|| $crate::step::code::digest(&[$($prefix),+]))
    }};
}
pub(super) use code_digest;
