//! Every kind of change is reported by its path, and nothing else is.

use super::*;
use crate::store::FileDigests;
use std::fs;

struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for name in ["a", "b", "in/one", "in/deep/two"] {
            scene.write(name, name);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// `a` and `in` by content, `b` by its stamp; taken when all stamps may be believed, or at once.
    fn snapshot(&self, is_old: bool) -> Snapshot {
        if is_old {
            std::thread::sleep(Duration::from_millis(120));
        }
        let mut files = FileDigests::load(self.path("none"));
        let paths = [self.path("a"), self.path("in")];
        files.prefetch(paths.iter().map(PathBuf::as_path));
        let mut snapshot = files.found().unwrap().clone();
        snapshot.extend(Snapshot::stable(&[self.path("b"), self.path("absent")]).unwrap());
        assert!(snapshot.is_whole());
        // As another process reads it.
        Snapshot::parse(&snapshot.to_bytes()).unwrap()
    }

    #[track_caller]
    fn differs(&self, snapshot: &mut Snapshot, names: &[&str]) {
        let changes = snapshot.changes();
        let paths: BTreeSet<_> = names.iter().map(|name| self.path(name)).collect();
        let found: BTreeSet<_> = changes
            .paths
            .into_iter()
            .chain(changes.new_folders)
            .collect();
        assert_eq!(found, paths);
    }
}

#[test]
fn each_kind_of_change_is_recognised_by_its_path() {
    let scene = Scene::new();
    for is_old in [true, false] {
        let change = |names: &[&str], change: &dyn Fn()| {
            let mut snapshot = scene.snapshot(is_old);
            scene.differs(&mut snapshot, &[]);
            change();
            scene.differs(&mut snapshot, names);
        };
        change(&["a"], &|| scene.write("a", "A"));
        change(&["b"], &|| scene.write("b", "b"));
        change(&["in/deep/two"], &|| scene.write("in/deep/two", "TWO"));
        change(&["in/deep/more/three"], &|| {
            scene.write("in/deep/more/three", "3")
        });
        change(&["in/deep/more", "in/deep/more/three"], &|| {
            fs::remove_dir_all(scene.path("in/deep/more")).unwrap();
        });
        change(&["in/empty"], &|| {
            fs::create_dir(scene.path("in/empty")).unwrap()
        });
        change(&["in/empty"], &|| {
            fs::remove_dir(scene.path("in/empty")).unwrap()
        });
        change(&["absent"], &|| scene.write("absent", ""));
        change(&["absent"], &|| {
            fs::remove_file(scene.path("absent")).unwrap()
        });
        change(&[], &|| scene.write("unread", "x"));
        scene.write("a", "a");
        scene.write("in/deep/two", "two");
    }
}

#[test]
fn content_that_came_back_is_believed_by_its_new_stamp() {
    let scene = Scene::new();
    let mut snapshot = scene.snapshot(true);
    assert!(!snapshot.changes().refreshed);
    scene.write("a", "a");
    assert!(snapshot.changes().refreshed, "the stamp is another");
    std::thread::sleep(Duration::from_millis(120));
    assert!(
        snapshot.changes().refreshed,
        "a young stamp is not believed"
    );
    assert!(!snapshot.changes().refreshed);
    scene.write("a", "other");
    scene.differs(&mut snapshot, &["a"]);
    scene.differs(&mut snapshot, &["a"]);
}

#[test]
fn what_two_looks_found_otherwise_is_no_snapshot() {
    let scene = Scene::new();
    let look = |text: &str| {
        scene.write("a", text);
        Snapshot::of([&scene.path("a")], &[])
    };
    let one = look("a");
    let other = look("longer");
    for (second, agrees) in [(&one, true), (&other, false)] {
        let mut both = one.clone();
        both.extend(second.clone());
        assert_eq!(both.is_whole(), agrees);
    }
}
