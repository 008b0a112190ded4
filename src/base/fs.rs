//! File operations that leave either the old state or the new one, never half of each.

#![expect(clippy::disallowed_methods, reason = "the home of file operations")]

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::{mounts, temporary};

/// Writes a file so that a reader, or a crash at any moment, sees all of it or none of it.
///
/// The content is synced before the rename: a rename may otherwise reach the disk before the bytes that it publishes.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    write_whole(path, |file| file.write_all(bytes))
}

/// Lets `write` fill a file that appears under its name when it is whole, and not at all if it fails.
pub fn write_whole<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> Result<T, E>,
) -> Result<T, E> {
    persist(temporary::make(parent(path))?, path, write)
}

/// Lets `write` fill a temporary file, and gives it the name that it is for.
pub fn persist<T, E: From<io::Error>>(
    mut file: tempfile::NamedTempFile,
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> Result<T, E>,
) -> Result<T, E> {
    let written = write(file.as_file_mut())?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(written)
}

/// Writes a file into a folder that nobody else reads yet, such as the output of a running step.
pub fn write_new(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Removes a file that orch made, if it is there.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The folder that a file lies in.
pub fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// All regular files below `root`, as sorted paths relative to it, with `/` between components.
///
/// Symbolic links are an error: what they point to is not part of the tree, so no digest could answer for it. Only those of a
/// snapshot in the Hub's cache, which has nothing else, count as the files that they lead to.
pub fn files_below(root: &Path) -> io::Result<Vec<String>> {
    below(root).map(|(files, _)| files)
}

/// Files and folders below `root`, as [`files_below`]; the folders are in no particular order.
pub fn below(root: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let mut files = Vec::new();
    let mut folders = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name
                .to_str()
                .ok_or_else(|| io::Error::other(format!("{name:?} is not valid UTF-8")))?;
            let path = if folder.is_empty() {
                name.to_owned()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() || (kind.is_symlink() && is_in_hub_cache(root, &entry.path()))
            {
                files.push(path);
            } else {
                return Err(io::Error::other(format!(
                    "{} is not a regular file",
                    entry.path().display()
                )));
            }
        }
        folders.extend(Some(folder).filter(|folder| !folder.is_empty()));
    }
    files.sort();
    Ok((files, folders))
}

/// Whether a file beside others is in their folder, and no link leads out of it but those of the Hub's cache.
pub fn is_inside(folder: &Path, file: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let is_below = || Some(real(file)?.starts_with(real(folder)?));
    is_below().unwrap_or(false) || is_in_hub_cache(folder, file)
}

/// Whether `root` is `…/snapshots/REVISION` of the Hub's cache or a folder below it, and `link` leads to a file in `…/blobs` beside it.
fn is_in_hub_cache(root: &Path, link: &Path) -> bool {
    let blobs = || {
        let root = fs::canonicalize(root).ok()?;
        let is_snapshots = |path: &&Path| path.file_name().is_some_and(|name| name == "snapshots");
        let snapshots = root.ancestors().skip(1).find(is_snapshots)?;
        Some(snapshots.parent()?.join("blobs"))
    };
    let target = || {
        fs::canonicalize(link)
            .ok()
            .filter(|target| target.is_file())
    };
    blobs().is_some_and(|blobs| target().is_some_and(|target| target.starts_with(blobs)))
}

/// All folders below `root`, without itself.
pub fn folders_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let all = walkdir::WalkDir::new(root).min_depth(1).into_iter();
    let folders = all.filter_map(|entry| match entry {
        Ok(entry) => entry.file_type().is_dir().then(|| Ok(entry.into_path())),
        Err(e) => Some(Err(e.into())),
    });
    folders.collect()
}

/// All files of a folder in this binary, and of those below it.
pub fn embedded<'a>(dir: &'a include_dir::Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    dir.files().chain(dir.dirs().flat_map(embedded)).collect()
}

/// Copies a file cheaply: a reflink or an in-kernel copy where the file system can ([`fs::copy`] asks for both).
pub fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::copy(from, to)?;
    Ok(())
}

/// Makes a folder that only its owner can enter. One that is there is left as it is: its owner decided who shares it.
pub fn make_private(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        // A link to a folder is one too.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        other => other,
    }
}

/// Opens what must be a file with content of its own: a FIFO would be waited for, and a device may have no end.
///
/// A name that becomes something else after it was looked at is refused as well, by the open file.
pub fn open_regular(path: &Path) -> io::Result<(fs::File, fs::Metadata)> {
    let check = |meta: fs::Metadata| {
        if meta.is_file() {
            Ok(meta)
        } else {
            Err(not_regular(&meta))
        }
    };
    // Opening a device may do something already.
    check(fs::metadata(path)?)?;
    let file = fs::File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let meta = check(file.metadata()?)?;
    Ok((file, meta))
}

fn not_regular(meta: &fs::Metadata) -> io::Error {
    let what = match meta.file_type() {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a FIFO",
        _ => "a device or a socket",
    };
    let hint = if meta.is_dir() {
        ""
    } else {
        "; hint: write its content to one"
    };
    io::Error::other(format!("it is {what} and not a regular file{hint}"))
}

/// The text of a regular file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let (file, meta) = open_regular(path)?;
    let mut bytes = Vec::new();
    if meta.len() <= limit {
        // It may grow meanwhile, and files of `/proc` say that they are empty.
        file.take(limit + 1).read_to_end(&mut bytes)?;
    }
    if meta.len().max(bytes.len() as u64) > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", limit >> 20),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is not UTF-8 from line {line} on"),
        )
    })
}

/// The moment when anything about a file changed last, its name and permissions included.
pub fn changed(meta: &fs::Metadata) -> SystemTime {
    UNIX_EPOCH + Duration::new(meta.ctime().max(0) as u64, meta.ctime_nsec() as u32)
}

/// A text for what lies at `path`, which is another one once that was made anew.
pub fn installation(path: &Path) -> io::Result<String> {
    let meta = fs::metadata(path)?;
    let node = meta.ino();
    let seconds = meta.mtime();
    let nanos = meta.mtime_nsec();
    Ok(format!("{} {node} {seconds}.{nanos:09}", path.display()))
}

/// Whether the owner may execute a file.
pub fn is_executable(meta: &fs::Metadata) -> bool {
    meta.mode() & 0o100 != 0
}

/// Lets whoever may read a file execute it.
pub fn make_executable(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.mode();
    fs::set_permissions(
        path,
        fs::Permissions::from_mode(mode | ((mode & 0o444) >> 2)),
    )
}

/// Makes a file read-only, so that a careless tool cannot change published content.
pub fn protect(path: &Path, executable: bool) -> io::Result<()> {
    fs::set_permissions(
        path,
        fs::Permissions::from_mode(if executable { 0o555 } else { 0o444 }),
    )
}

/// Makes a file that is protected as by [`protect`], in place of any other.
pub fn write_protected(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(0o444))
}

/// Moves a file, also onto another disk: then it is copied beside its new name first, and synced, as none is moved in half.
pub fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
            let permissions = fs::metadata(from)?.permissions();
            write_whole(to, |file| {
                io::copy(&mut fs::File::open(from)?, file)?;
                file.set_permissions(permissions)
            })?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}

/// Gives a file another name: a hard link where the file system can, a copy where it cannot.
pub fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
            ) =>
        {
            Err(e)
        }
        // Another file system, one without links, or too many links to one file.
        Err(_) => fs::copy(from, to).map(drop),
    }
}

/// Free bytes for this user on the file system of `path`, if the system says.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What to do about a full disk.
pub const FULL_DISK: &str = "free some space, e.g. by `orch cache gc`, or name another disk by `--cache-dir`; then run again";

/// Tells what to do about a full disk, which is no fault of whatever met it.
pub fn with_remedy(error: io::Error) -> io::Error {
    if !matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        return error;
    }
    io::Error::new(error.kind(), format!("{error}; hint: {FULL_DISK}"))
}

/// A number that no other call in this process gets.
pub struct Nonce;

impl Nonce {
    pub fn next() -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// Removes a folder if it is there. Never across a mount: what lies behind one is somebody else's.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    if let Some(point) = mounts::below(path)?.first() {
        let why = format!(
            "`{}` is a mount point, so nothing is removed; hint: `umount` it",
            point.display()
        );
        return Err(io::Error::other(why));
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a folder anew: whatever lies there is removed.
pub fn make_empty(path: &Path) -> io::Result<()> {
    remove_dir(path)?;
    fs::create_dir_all(path)
}

/// Removes a folder in which a program worked: also one that holds read-only folders, as some package managers leave.
pub fn remove_left(path: &Path) -> io::Result<()> {
    if remove_dir(path).is_ok() {
        return Ok(());
    }
    // A folder is opened before the walk enters it.
    for entry in walkdir::WalkDir::new(path)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_dir())
    {
        let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
    }
    remove_dir(path)
}

/// The path without `.` and `..`; symbolic links are not looked at.
pub fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if out.file_name().is_some() => drop(out.pop()),
            Component::ParentDir | Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_count_in_a_snapshot_of_the_hubs_cache_and_nowhere_else() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["blobs", "snapshots/a1", "elsewhere"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["blobs/x", "secret"] {
            fs::write(at(file), file).unwrap();
        }
        symlink("../../blobs/x", at("snapshots/a1/config.json")).unwrap();
        assert_eq!(files_below(&at("snapshots/a1")).unwrap(), ["config.json"]);
        symlink("../blobs/x", at("elsewhere/config.json")).unwrap();
        assert!(files_below(&at("elsewhere")).is_err());
        symlink("../../secret", at("snapshots/a1/secret")).unwrap();
        let refused = files_below(&at("snapshots/a1")).unwrap_err().to_string();
        assert!(
            refused.contains("secret is not a regular file"),
            "{refused}"
        );
    }

    #[test]
    fn a_link_inside_a_tree_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("x")).unwrap();
        assert!(
            files_below(dir.path())
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
    }
}
