//! Takes an archive in. Everything is read, checked and laid aside first; only a whole and right archive enters the store.

#![expect(clippy::disallowed_methods, reason = "writes a file out of a pack")]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::base::{Digest, ensure, fs as bfs};
use crate::record::Record;
use crate::store::blobs::parse_name;
use crate::store::entry::{Entry, Header, Held, Kind, step_id};
use crate::store::gc::RecordPart;
use crate::store::pack::{
    BLOBS, FORMAT, HEAD, Head, Imported, List, RECORDS, TREES, Through, VERSION, check,
};
use crate::store::tree::Blob;
use crate::store::{Amount, DiskStore, ManifestFile, Result, StoreError};

/// A head, and a line of a list, are never longer.
const LONGEST_HEAD: u64 = 1 << 20;
const LONGEST_LINE: u64 = 256 << 20;
/// The bytes that are appended to the log at a time.
const PORTION: usize = 8 << 20;

/// Content that the manifests name, and whether it came.
struct Wanted {
    file: ManifestFile,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Missing,
    /// It lies aside.
    Came(PathBuf),
    /// The store had it.
    Held,
}

struct Reading<'a> {
    store: &'a DiskStore,
    name: &'a Path,
    dir: PathBuf,
    trees: HashSet<Digest>,
    wanted: HashMap<Blob, Wanted>,
}

impl DiskStore {
    /// Takes in the archive that `from` gives and that is called `name`.
    pub fn import(&self, from: impl Read, name: &Path) -> Result<Imported> {
        self.must_be_writable("nothing can be imported")?;
        let scratch = self.scratch()?;
        let dir = scratch.dir("import")?;
        let mut reading = Reading {
            store: self,
            name,
            dir,
            trees: HashSet::new(),
            wanted: HashMap::new(),
        };
        let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 18, from));
        // Raw: names by extension, links and holes are things that no archive of orch's has.
        let mut entries = archive
            .entries()
            .map_err(|e| reading.unreadable(e))?
            .raw(true);
        let head = reading.head(entries.next())?;
        reading.list(entries.next(), TREES, &head.trees)?;
        reading.list(entries.next(), RECORDS, &head.records)?;
        reading.check_trees()?;
        reading.check_records()?;
        let others = || reading.refused("its manifests name other content than its head");
        ensure(reading.amount(|_| true) == head.blobs, others)?;
        for entry in entries {
            reading.blob(entry)?;
        }
        let missing = reading.amount(|state| *state == State::Missing);
        let all = head.blobs.count;
        let missing = missing.count;
        let lacks = || {
            reading.refused(&format!(
                "it is cut short: {missing} of its {all} files are missing"
            ))
        };
        ensure(missing == 0, lacks)?;
        let new_blobs = reading.amount(|state| matches!(state, State::Came(_)));
        reading.place()?;
        let new_trees = reading.append_trees()?;
        let new_records = reading.append_records()?;
        let records = head.records.lines;
        let trees = head.trees.lines;
        Ok(Imported {
            records,
            new_records,
            trees,
            new_trees,
            blobs: head.blobs,
            new_blobs,
        })
    }
}

type Next<'a, R> = Option<io::Result<tar::Entry<'a, R>>>;

impl Reading<'_> {
    fn refused(&self, what: &str) -> StoreError {
        StoreError::Refused {
            path: self.name.to_owned(),
            what: what.to_owned(),
        }
    }

    fn unreadable(&self, error: io::Error) -> StoreError {
        self.refused(&format!("it cannot be read: {error}"))
    }

    /// An entry with its name; only plain files are expected.
    fn entry<'a, R: Read>(&self, entry: Next<'a, R>) -> Result<(String, tar::Entry<'a, R>)> {
        let entry = entry
            .ok_or_else(|| self.refused("it is cut short"))?
            .map_err(|e| self.unreadable(e))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let is_plain = entry.header().entry_type() == tar::EntryType::Regular;
        ensure(is_plain, || {
            self.refused(&format!("{name:?} in it is no plain file"))
        })?;
        Ok((name, entry))
    }

    fn head<R: Read>(&self, entry: Next<'_, R>) -> Result<Head> {
        let foreign = || {
            self.refused(
                "it is no archive of `orch cache export`\n  hint: a compressed one is given as `zstd -dc FILE | orch cache import -`",
            )
        };
        let Some(Ok(mut entry)) = entry else {
            return Err(foreign());
        };
        ensure(
            *entry.path_bytes() == *HEAD.as_bytes() && entry.size() <= LONGEST_HEAD,
            foreign,
        )?;
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .map_err(|e| self.unreadable(e))?;
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| foreign())?;
        ensure(value["format"] == FORMAT, foreign)?;
        if value["version"] != VERSION {
            let what = format!(
                "its format is {} and this orch reads {VERSION}; use the orch that wrote it",
                value["version"]
            );
            return Err(self.refused(&what));
        }
        serde_json::from_value(value)
            .map_err(|e| self.refused(&format!("its head cannot be read: {e}")))
    }

    /// Lays one of the lists aside.
    fn list<R: Read>(&self, entry: Next<'_, R>, expected: &str, list: &List) -> Result<()> {
        let (name, mut entry) = self.entry(entry)?;
        let elsewhere = || self.refused(&format!("{expected} is not where and as its head says"));
        ensure(name == expected && entry.size() == list.bytes, elsewhere)?;
        let found = self.copy(&mut entry, &self.dir.join(expected))?;
        let damaged = || self.refused(&format!("{expected} in it is damaged or cut short"));
        ensure(found == (list.bytes, list.digest), damaged)
    }

    /// Copies to a file; gives how many bytes came, and their digest.
    fn copy(&self, from: &mut impl Read, to: &Path) -> Result<(u64, Digest)> {
        let mut out = File::create(to).map_err(StoreError::io("write", to))?;
        self.pour(from, |bytes| {
            out.write_all(bytes).map_err(StoreError::io("write", to))
        })
    }

    fn pour(
        &self,
        from: &mut impl Read,
        mut to: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<(u64, Digest)> {
        let mut from = Through::new(from);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match from.read(&mut buffer).map_err(|e| self.unreadable(e))? {
                0 => return Ok((from.bytes, from.hasher.digest())),
                read => to(&buffer[..read])?,
            }
        }
    }

    /// Goes through a list that was laid aside.
    fn lines(&self, list: &str, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let path = self.dir.join(list);
        let file = File::open(&path).map_err(StoreError::io("read", &path))?;
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(StoreError::io("read", &path))? == 0 {
                return Ok(());
            }
            let has_end = line.pop() == Some(b'\n');
            ensure(has_end, || {
                self.refused(&format!("a line of {list} in it has no end"))
            })?;
            visit(&line)?;
        }
    }

    fn check_trees(&mut self) -> Result<()> {
        let mut trees = HashSet::new();
        let mut wanted = HashMap::new();
        self.lines(TREES, |line| {
            let manifest = check::manifest(line).map_err(|what| self.refused(&what))?;
            ensure(trees.insert(Digest::of(line)), || {
                self.refused("it holds a tree twice")
            })?;
            for file in manifest.files {
                let digest = file.digest;
                let size = file.size;
                let known = wanted.entry(file.blob()).or_insert(Wanted {
                    file,
                    state: State::Missing,
                });
                let two = || {
                    self.refused(&format!(
                        "it names two sizes for content {}",
                        digest.short()
                    ))
                };
                ensure(known.file.size == size, two)?;
            }
            Ok(())
        })?;
        (self.trees, self.wanted) = (trees, wanted);
        Ok(())
    }

    fn check_records(&self) -> Result<()> {
        let mut keys = HashSet::new();
        let mut used = HashSet::new();
        self.lines(RECORDS, |line| {
            let record = check::record(line, |tree| self.trees.contains(tree))
                .map_err(|what| self.refused(&what))?;
            used.extend(record.output);
            let is_new = keys.insert(record.key.digest());
            let twice = || {
                self.refused(&format!(
                    "it holds two records for a key of {}",
                    record.step
                ))
            };
            ensure(is_new, twice)
        })?;
        ensure(used.len() == self.trees.len(), || {
            self.refused("it holds trees that none of its records made")
        })
    }

    fn amount(&self, which: impl Fn(&State) -> bool) -> Amount {
        let mut amount = Amount::default();
        for wanted in self.wanted.values().filter(|wanted| which(&wanted.state)) {
            amount.count += 1;
            amount.bytes = amount.bytes.saturating_add(wanted.file.size);
        }
        amount
    }

    /// Lays one content aside, unless the store has it whole.
    fn blob<R: Read>(&mut self, entry: io::Result<tar::Entry<'_, R>>) -> Result<()> {
        let (name, mut entry) = self.entry(Some(entry))?;
        let stray = || {
            self.refused(&format!(
                "{name:?} in it is content that it does not name, or comes twice"
            ))
        };
        let blob = name
            .strip_prefix(BLOBS)
            .and_then(parse_name)
            .ok_or_else(stray)?;
        let wanted = self
            .wanted
            .get(&blob)
            .filter(|wanted| wanted.state == State::Missing)
            .ok_or_else(stray)?;
        let size = wanted.file.size;
        let other = || self.refused(&format!("{name} in it has another size than its tree says"));
        ensure(entry.size() == size, other)?;
        let is_held = self.store.blobs.has_whole(&wanted.file);
        let to = self.dir.join(name.trim_start_matches(BLOBS));
        let found = if is_held {
            self.pour(&mut entry, |_| Ok(()))?
        } else {
            self.copy(&mut entry, &to)?
        };
        ensure(found == (size, blob.0), || {
            self.refused(&format!("{name} in it is damaged or cut short"))
        })?;
        let state = if is_held {
            State::Held
        } else {
            State::Came(to)
        };
        self.wanted
            .entry(blob)
            .and_modify(|wanted| wanted.state = state);
        Ok(())
    }

    /// Puts all content where the store has it.
    fn place(&self) -> Result<()> {
        for Wanted { file, state } in self.wanted.values() {
            match state {
                State::Came(from) => self.store.blobs.take(from, file)?,
                // It counts as changed now, so that collecting garbage leaves it alone until the log names it.
                _ => {
                    let path = self.store.blob(file);
                    bfs::protect(&path, file.executable).map_err(StoreError::io("use", path))?;
                }
            }
        }
        Ok(())
    }

    fn append_trees(&self) -> Result<u64> {
        self.append(TREES, |line| {
            let digest = Digest::of(line);
            let is_known = self.store.log.knows_tree(&digest)?;
            Ok((!is_known).then(|| Entry::new(Kind::Tree, digest, line.to_vec())))
        })
    }

    fn append_records(&self) -> Result<u64> {
        self.append(RECORDS, |line| {
            let record: Record = serde_json::from_slice(line).map_err(|e| {
                self.refused(&format!(
                    "a record that was read before cannot be read: {e}"
                ))
            })?;
            let key = record.key.digest();
            let held = self.store.hit(&key)?;
            if held.is_some_and(|hit| hit.output.is_none_or(|tree| self.store.has_tree(&tree))) {
                return Ok(None);
            }
            let step = step_id(&record.step);
            let mut header =
                Header::record(key, step, Held::of(record.outcome), record.output, line);
            header.aside = self.store.is_newer_than(&step, &record.started)?;
            Ok(Some(Entry {
                header,
                payload: line.to_vec(),
            }))
        })
    }

    /// Appends what `draft` makes of the lines of a list, in portions; how many entries those are.
    fn append(&self, list: &str, draft: impl Fn(&[u8]) -> Result<Option<Entry>>) -> Result<u64> {
        let mut drafts = Vec::new();
        let mut bytes = 0;
        let mut new = 0;
        self.lines(list, |line| {
            let Some(entry) = draft(line)? else {
                return Ok(());
            };
            (bytes, new) = (bytes + entry.payload.len(), new + 1);
            drafts.push(entry);
            if bytes < PORTION {
                return Ok(());
            }
            bytes = 0;
            self.store.log.append(std::mem::take(&mut drafts))
        })?;
        self.store.log.append(drafts)?;
        Ok(new)
    }
}

impl DiskStore {
    /// Whether a step was executed here, or known to be, at this time or later.
    fn is_newer_than(&self, step: &[u8; 16], started: &str) -> Result<bool> {
        let Some(place) = self.log.latest(step)? else {
            return Ok(false);
        };
        // One that cannot be read is no obstacle.
        let Ok(entry) = self.log.entry(&place) else {
            return Ok(false);
        };
        let date = |text: &str| text.parse::<jiff::Timestamp>().ok();
        Ok(RecordPart::parse(&entry.payload)
            .is_some_and(|record| date(&record.started) >= date(started)))
    }
}
