//! The mark of a folder that orch made. A folder without one is somebody else's: it is neither emptied nor removed.

use std::fs;
use std::io;
use std::path::Path;

use crate::base::fs::write_atomic;

/// The file that is the mark.
pub const NAME: &str = ".orch";
/// Its first words.
const WORDS: &str = "orch made this folder";

pub fn is_on(folder: &Path) -> bool {
    fs::read(folder.join(NAME)).is_ok_and(|text| text.starts_with(WORDS.as_bytes()))
}

/// Marks a folder, which is made if it is not there.
pub fn put(folder: &Path, what: &str) -> io::Result<()> {
    let text =
        format!("{WORDS}: {what}. It removes what lies here when nothing needs it any more.\n");
    write_atomic(&folder.join(NAME), text.as_bytes())
}
