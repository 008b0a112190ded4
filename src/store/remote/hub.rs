//! One remote during one run: a few threads, results that wait as tasks for their turn, and what is known of the other side.

mod actions;
mod address;
mod fetch;
mod left;
mod pending;
mod push;
mod sealed;
mod service;
mod tally;
mod trouble;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::{Digest, Secret, lock};
use crate::config::{Download, RemoteConfig};
use crate::reapi;
use crate::store::blobs::name;
use crate::store::remote::{Done, RecordRequest, Remote};
use crate::store::tree::Blob;
use crate::store::{DiskStore, Manifest, ManifestFile, Scratch, StoreError};

use actions::Actions;
use address::Address;
use left::LeftTrees;
use pending::Pending;
use service::{Service, settings};
use tally::Tally;
use trouble::Trouble;

fn result_path(key: &Digest) -> String {
    let name = key.to_string();
    format!("v2/results/{}/{name}", &name[..2])
}

fn blob_path(file: &ManifestFile) -> String {
    let name = name(&file.blob());
    format!("v2/blobs/{}/{name}", &name[..2])
}

/// What the tasks share.
struct Inner {
    store: Arc<DiskStore>,
    secret: Option<Secret>,
    tally: Tally,
    place: Place,
    download: Download,
    /// The trees that stayed on the remote.
    stayed: LeftTrees,
    scratch: OnceLock<Scratch>,
    /// Requests at a time; sending does not stand in the way of what a step waits for.
    reads: Semaphore,
    writes: Semaphore,
    /// Results at a time.
    fetches: Semaphore,
    pushes: Semaphore,
    /// Contents that are known to be there (true) or to be wrong there (false).
    seen: Mutex<HashMap<Blob, bool>>,
    /// Keys of which nothing more is to be sent.
    sent: Mutex<BTreeSet<Digest>>,
    /// Uploads that were begun or wait.
    left: AtomicUsize,
}

impl Inner {
    /// A folder for what arrives; on the store's file system, and gone with this process.
    fn arrivals(&self) -> Result<PathBuf, Trouble> {
        if self.scratch.get().is_none() {
            // Another thread's may have come first; this one's then goes again.
            let _ = self.scratch.set(self.store.scratch()?);
        }
        Ok(self
            .scratch
            .get()
            .expect("BUG: it was just made")
            .dir("remote")?)
    }

    /// Whether a content is known to be right there, or to be wrong.
    fn seen(&self, file: &ManifestFile) -> Option<bool> {
        lock(&self.seen).get(&file.blob()).copied()
    }

    fn see(&self, file: &ManifestFile, is_right: bool) {
        lock(&self.seen).insert(file.blob(), is_right);
    }

    fn keep_pending(&self, kept: io::Result<()>) {
        if let Err(e) = kept {
            self.tally.trouble(&Trouble::Local(format!(
                "the list of pending uploads was not kept: {e}"
            )));
        }
    }
}

/// The place of results: objects by path, or the results of actions.
enum Place {
    Objects(Service),
    Actions(Actions),
}

impl Place {
    fn open(address: &Address, config: &RemoteConfig) -> Result<Self, String> {
        match &address.server {
            Some(server) => Actions::open(server, config).map(Self::Actions),
            None => Service::open(address, config).map(Self::Objects),
        }
    }

    /// Asks for something that cannot be there.
    async fn reach(&self, writes: bool) -> Result<(), Trouble> {
        match self {
            Self::Objects(service) => {
                service.get("v2/results/00/is-anybody-there").await?;
                service.find_bucket().await
            }
            Self::Actions(actions) => actions.reach(writes).await,
        }
    }
}

/// Waits in line.
async fn turn(permits: &Semaphore) -> SemaphorePermit<'_> {
    permits.acquire().await.expect("BUG: nobody closes it")
}

/// What runs once something is requested of a remote.
struct Engine {
    inner: Arc<Inner>,
    runtime: Runtime,
}

/// A remote that a run uses.
pub struct Hub {
    config: RemoteConfig,
    address: Address,
    store: Arc<DiskStore>,
    pending: Pending,
    /// Started by the first question: a run in which nothing changed asks none.
    engine: OnceLock<Result<Engine, String>>,
    has_reported: AtomicBool,
}

/// What a remote says to a first question.
pub struct Reached {
    pub remote: String,
    pub writes: bool,
    pub signed: bool,
    /// Results that are still to be uploaded.
    pub pending: usize,
    /// Why it cannot be used.
    pub error: Option<String>,
    pub seconds: f64,
}

impl Hub {
    /// Connects to nothing yet.
    pub fn open(config: RemoteConfig, store: Arc<DiskStore>) -> Result<Self, String> {
        let address = Address::of(&config, settings)?;
        let pending = Pending::of(store.root(), &address.shown);
        Ok(Self {
            config,
            address,
            store,
            pending,
            engine: OnceLock::new(),
            has_reported: AtomicBool::new(false),
        })
    }

    /// Whether a remote lacks what earlier runs of the store at `root` have made.
    pub fn owes(config: &RemoteConfig, root: &Path) -> bool {
        let address = Address::of(config, settings)
            .ok()
            .filter(|address| address.writes);
        address.is_some_and(|address| {
            Pending::of(root, &address.shown)
                .list()
                .is_ok_and(|left| !left.is_empty())
        })
    }

    /// The name as it may be shown.
    pub fn name(&self) -> &str {
        &self.address.shown
    }

    pub fn writes(&self) -> bool {
        self.address.writes
    }

    /// Queues the uploads that earlier runs have left; how many those are.
    pub fn resume(&self) -> usize {
        if !self.writes() {
            return 0;
        }
        let left = self.pending.list().unwrap_or_default();
        let Some(engine) = (!left.is_empty()).then(|| self.engine()).flatten() else {
            return left.len();
        };
        left.iter().for_each(|key| engine.offer(*key));
        left.len()
    }

    /// Queues every result that the store holds.
    pub fn offer_all(&self) -> Result<(), StoreError> {
        let mut keys = self.store.answered()?;
        keys.extend(self.pending.list().unwrap_or_default());
        keys.iter().for_each(|key| self.offer(key));
        Ok(())
    }

    /// How many uploads stand in the list.
    fn owed(&self) -> usize {
        self.pending.list().map_or(0, |keys| keys.len())
    }

    fn engine(&self) -> Option<&Engine> {
        self.engine
            .get_or_init(|| Engine::start(&self.config, &self.address, &self.store))
            .as_ref()
            .ok()
    }

    /// Asks for something that cannot be there.
    pub fn reach(&self) -> Reached {
        let start = Instant::now();
        let error = match self.engine() {
            None => self
                .engine
                .get()
                .and_then(|engine| engine.as_ref().err().cloned()),
            Some(engine) => {
                let question = engine.inner.place.reach(self.writes());
                engine
                    .runtime
                    .block_on(question)
                    .err()
                    .map(|trouble| trouble.to_string())
            }
        };
        Reached {
            remote: self.address.shown.clone(),
            writes: self.writes(),
            signed: self.config.key.is_some(),
            pending: self.owed(),
            error,
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    /// Waits for the uploads, as long as `go_on`, called with how many are left, is true, and within the bound that is
    /// configured; gives how many remain for the next run.
    pub fn finish(&self, mut go_on: impl FnMut(usize) -> bool) -> usize {
        if let Some(Ok(Engine { inner, .. })) = self.engine.get() {
            let start = Instant::now();
            let left = || inner.left.load(Ordering::Acquire);
            while left() > 0
                && !inner.tally.is_broken()
                && start.elapsed() < self.config.wait
                && go_on(left())
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            let sent = std::mem::take(&mut *lock(&inner.sent));
            inner.keep_pending(self.pending.remove(&sent));
        }
        if self.writes() { self.owed() } else { 0 }
    }

    /// Everything that was fetched, sent and wrong, on one line, and whether something was wrong.
    pub fn summary(&self) -> Option<(String, bool)> {
        match self.engine.get()? {
            Ok(engine) => {
                let counts = engine.inner.tally.now();
                Some((
                    format!("remote: {}", counts.summary()?),
                    counts.is_troubled(),
                ))
            }
            Err(e) => Some((e.clone(), true)),
        }
    }
}

impl Remote for Hub {
    fn fetch(&self, request: RecordRequest, done: Done) {
        match self.engine() {
            Some(engine) if !engine.inner.tally.is_broken() => {
                engine
                    .runtime
                    .spawn(answer(engine.inner.clone(), request, done));
            }
            _ => done(None),
        }
    }

    fn left(&self, tree: &Digest) -> Option<Manifest> {
        let Some(Ok(engine)) = self.engine.get() else {
            return None;
        };
        engine.inner.stayed.manifest(tree)
    }

    fn bring(&self, tree: &Digest) -> Result<(), String> {
        let Some(engine) = self.engine() else {
            return Err(left::NOT_THERE.into());
        };
        engine.runtime.block_on(engine.inner.bring_left(tree))
    }

    fn bring_files(&self, tree: &Digest, files: &[ManifestFile]) -> Result<(), String> {
        let Some(engine) = self.engine() else {
            return Err(left::NOT_THERE.into());
        };
        let brought = engine.inner.bring_left_files(tree, files);
        engine.runtime.block_on(brought)
    }

    fn offer(&self, key: &Digest) {
        if !self.writes() {
            return;
        }
        let added = self.pending.add(key);
        if let Some(engine) = self.engine() {
            engine.inner.keep_pending(added);
            engine.offer(*key);
        }
    }

    fn news(&self) -> Option<String> {
        let news = match self.engine.get()? {
            Ok(engine) => engine.inner.tally.take_news()?,
            Err(e) => {
                return (!self.has_reported.swap(true, Ordering::AcqRel)).then(|| e.clone());
            }
        };
        Some(format!("the remote {}: {news}", self.address.shown))
    }
}

impl Engine {
    fn start(
        config: &RemoteConfig,
        address: &Address,
        store: &Arc<DiskStore>,
    ) -> Result<Self, String> {
        let runtime = reapi::runtime("orch-remote").map_err(|e| {
            format!(
                "the remote {} is not used: no thread could be started: {e}",
                address.shown
            )
        })?;
        let place = {
            let _inside = runtime.enter();
            Place::open(address, config)?
        };
        let inner = Arc::new(Inner {
            store: store.clone(),
            secret: config.key.clone(),
            tally: Tally::default(),
            place,
            download: config.download,
            stayed: LeftTrees::default(),
            scratch: OnceLock::new(),
            reads: Semaphore::new(config.concurrency),
            writes: Semaphore::new(config.concurrency),
            fetches: Semaphore::new(config.concurrency),
            pushes: Semaphore::new(config.concurrency),
            seen: Mutex::default(),
            sent: Mutex::default(),
            left: AtomicUsize::new(0),
        });
        Ok(Self { inner, runtime })
    }

    fn offer(&self, key: Digest) {
        self.inner.left.fetch_add(1, Ordering::AcqRel);
        self.runtime.spawn(deliver(self.inner.clone(), key));
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // What still runs is not awaited: it stands in the list of what is pending, or was not needed. The moment is for
        // the tasks to let go of the working folder.
        if let Some(Ok(engine)) = self.engine.take() {
            engine.runtime.shutdown_timeout(Duration::from_millis(500));
        }
    }
}

async fn answer(inner: Arc<Inner>, request: RecordRequest, done: Done) {
    let _turn = turn(&inner.fetches).await;
    if inner.tally.is_broken() {
        return done(None);
    }
    // Put on the heap when it begins: thousands may wait in line.
    let found = Box::pin(fetch::fetch(&inner, request)).await;
    match &found {
        Ok(Some(_)) => {}
        Ok(None) => inner.tally.miss(),
        Err(trouble) => inner.tally.trouble(trouble),
    }
    done(found.ok().flatten().map(Box::new));
}

async fn deliver(inner: Arc<Inner>, key: Digest) {
    let _turn = turn(&inner.pushes).await;
    if !inner.tally.is_broken() {
        match Box::pin(push::push(&inner, &key)).await {
            Ok(()) => drop(lock(&inner.sent).insert(key)),
            Err(trouble) => inner.tally.trouble(&trouble),
        }
    }
    inner.left.fetch_sub(1, Ordering::AcqRel);
}
