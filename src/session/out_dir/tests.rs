//! What becomes of a folder, by what lay there before.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::folder::{Named, Spot};
use super::*;

struct Scene {
    dir: tempfile::TempDir,
    store: DiskStore,
    folder: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = DiskStore::open(&dir.path().join("store")).unwrap();
        let folder = dir.path().join("out/artefacts/bert/onnx");
        Self { dir, store, folder }
    }

    fn tree(&self, weights: &str) -> Digest {
        let made = self.dir.path().join("made");
        fs::create_dir_all(made.join("sub")).unwrap();
        fs::write(made.join("weights"), weights).unwrap();
        fs::write(made.join("sub/config"), "c").unwrap();
        self.store.publish(&made).unwrap()
    }

    fn spot(&self, tree: &Digest) -> Spot<'_> {
        let named = Named {
            model: "bert".into(),
            artefact: "onnx".into(),
        };
        Spot {
            store: &self.store,
            tree: *tree,
            folder: &self.folder,
            named,
        }
    }

    fn hand_out(&self, tree: &Digest, most: u64) -> Handed {
        let mut handed = Handed::default();
        self.spot(tree)
            .hand_out(most, || "orch output x".to_owned(), &mut handed)
            .unwrap();
        handed
    }

    fn weights(&self) -> String {
        fs::read_to_string(self.folder.join("weights")).unwrap()
    }

    fn inode(&self) -> u64 {
        fs::metadata(self.folder.join("weights")).unwrap().ino()
    }
}

#[test]
fn a_program_that_rewrites_what_it_was_handed_does_not_reach_the_store() {
    let scene = Scene::new();
    let tree = scene.tree("one");
    assert!(!scene.hand_out(&tree, MOST).placed.is_empty());
    let file = scene.folder.join("weights");
    let inode = scene.inode();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 1);
    // As it should be: left alone, also where a copy of the folder has other stamps.
    scene.hand_out(&tree, MOST);
    fs::File::open(&file)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(scene.hand_out(&tree, MOST).notes.is_empty());
    assert_eq!(scene.inode(), inode);
    // Whoever is stronger than permissions.
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(&file, "two").unwrap();
    assert_eq!(
        scene.store.read_file(&tree, "weights").unwrap().unwrap(),
        b"one"
    );
    let notes = scene.hand_out(&tree, MOST).notes;
    assert!(
        notes.len() == 1 && notes[0].contains("was edited"),
        "{notes:?}"
    );
    assert_eq!(scene.weights(), "one");
    assert_eq!(
        fs::read_to_string(scene.folder.with_file_name("onnx.edited").join("weights")).unwrap(),
        "two"
    );
}

#[test]
fn what_orch_did_not_make_stays() {
    let scene = Scene::new();
    let one = scene.tree("one");
    let two = scene.tree("two");
    fs::create_dir_all(&scene.folder).unwrap();
    fs::write(scene.folder.join("weights"), "mine").unwrap();
    let handed = scene.hand_out(&one, MOST);
    assert!(
        handed.in_the_way && handed.notes[0].contains("is not orch's"),
        "{handed:?}"
    );
    assert_eq!(scene.weights(), "mine");
    // A folder of orch's with a file more in it.
    fs::remove_dir_all(&scene.folder).unwrap();
    scene.hand_out(&one, MOST);
    fs::write(scene.folder.join("sub/notes"), "mine").unwrap();
    assert!(scene.hand_out(&two, MOST).notes[0].contains("was edited"));
    assert_eq!(
        fs::read_to_string(scene.folder.with_file_name("onnx.edited").join("sub/notes")).unwrap(),
        "mine"
    );
    assert_eq!(scene.weights(), "two");
}

#[test]
fn what_orch_began_or_linked_is_made_anew() {
    let scene = Scene::new();
    let one = scene.tree("one");
    let two = scene.tree("two");
    scene
        .store
        .lay_out(&one, &scene.folder, crate::store::LaidAs::Links)
        .unwrap();
    let old = format!(r#"{{"model":"bert","artefact":"onnx","tree":"{one}"}}"#);
    fs::write(scene.folder.join("orch.json"), old).unwrap();
    assert!(scene.hand_out(&one, MOST).notes.is_empty());
    assert_eq!(
        fs::metadata(scene.folder.join("weights")).unwrap().nlink(),
        1
    );
    assert!(scene.hand_out(&two, MOST).notes.is_empty());
    fs::remove_file(scene.folder.join("weights")).unwrap();
    assert!(scene.hand_out(&two, MOST).notes.is_empty());
    assert_eq!(scene.weights(), "two");
    // A label that says nothing to this orch, around nothing but the store's own.
    fs::write(
        scene.folder.join("orch.json"),
        r#"{"tree":"","files":{"weights":"5e"}}"#,
    )
    .unwrap();
    let handed = scene.hand_out(&one, MOST);
    assert!(handed.notes.is_empty() && !handed.in_the_way, "{handed:?}");
    assert_eq!(scene.weights(), "one");
}

#[test]
fn a_large_tree_is_copied_on_demand_and_goes_when_it_is_outdated() {
    let scene = Scene::new();
    let one = scene.tree("one");
    let two = scene.tree("two");
    assert_eq!(scene.hand_out(&one, 3).large, 1);
    assert!(
        fs::read_to_string(scene.folder.join("orch.json"))
            .unwrap()
            .contains(r#""get":"orch output x""#)
    );
    assert!(scene.hand_out(&one, 3).notes.is_empty() && !scene.folder.join("weights").exists());
    assert!(scene.spot(&one).fill(&mut Handed::default()).unwrap());
    assert!(scene.hand_out(&one, 3).notes.is_empty());
    assert_eq!(scene.weights(), "one");
    scene.hand_out(&two, 3);
    assert!(
        !scene.folder.join("weights").exists(),
        "it is no longer what the spec makes"
    );
}

#[test]
fn of_a_large_model_all_but_its_weights_is_copied() {
    let scene = Scene::new();
    let tree = scene.tree("one");
    let spot = |named: &str| Spot {
        named: Named {
            model: "bert".into(),
            artefact: named.into(),
        },
        ..scene.spot(&tree)
    };
    let hand_out = || {
        let mut handed = Handed::default();
        spot("model")
            .hand_out(3, || "orch output x".to_owned(), &mut handed)
            .unwrap();
        handed
    };
    assert_eq!(hand_out().large, 1);
    let label = || fs::read_to_string(scene.folder.join("orch.json")).unwrap();
    assert!(label().contains(r#""lacks":["weights"]"#), "{}", label());
    assert_eq!(
        fs::read_to_string(scene.folder.join("sub/config")).unwrap(),
        "c"
    );
    assert!(!scene.folder.join("weights").exists());
    let before = fs::metadata(scene.folder.join("sub/config")).unwrap().ino();
    assert!(hand_out().notes.is_empty());
    assert_eq!(
        fs::metadata(scene.folder.join("sub/config")).unwrap().ino(),
        before
    );
    assert!(spot("model").fill(&mut Handed::default()).unwrap());
    assert!(hand_out().notes.is_empty());
    assert_eq!(scene.weights(), "one");
    assert!(!label().contains("lacks"), "{}", label());
}

fn doc() -> crate::report::ReportDoc {
    serde_json::from_str(include_str!("../../../tests/fixtures/report/doc.json")).unwrap()
}

fn show(doc: &crate::report::ReportDoc, folder: &Path) -> Handed {
    let mut handed = Handed::default();
    pages::show(doc, folder.to_owned(), &mut handed).unwrap();
    handed
}

#[test]
fn whoever_is_killed_between_two_pages_leaves_none_that_looks_edited() {
    let dir = tempfile::tempdir().unwrap();
    let old = doc();
    let new = crate::report::ReportDoc {
        spec: "another.yaml".into(),
        ..doc()
    };
    assert_eq!(show(&old, dir.path()).placed.len(), 4);
    let html = dir.path().join("index.html");
    let page = fs::read(&html).unwrap();
    // What it had announced, one page of it, and no word that all of them are there.
    let list = dir.path().join(crate::base::mark::NAME);
    let before = fs::read_to_string(&list).unwrap();
    show(&new, dir.path());
    let after = fs::read_to_string(&list).unwrap();
    let announced = before
        .lines()
        .chain(after.lines())
        .filter(|line| !line.contains("what the pages show"));
    fs::write(
        &list,
        announced.fold(String::new(), |text, line| text + line + "\n"),
    )
    .unwrap();
    let made = fs::read(&html).unwrap();
    for half in [&page, &made] {
        fs::write(&html, half).unwrap();
        let list_then = fs::read(&list).unwrap();
        let handed = show(&old, dir.path());
        assert!(
            handed.notes.is_empty() && fs::read(&html).unwrap() == page,
            "{handed:?}"
        );
        assert_eq!(fs::read_to_string(&list).unwrap(), before);
        fs::write(&list, list_then).unwrap();
    }
}

#[test]
fn a_page_that_is_somebody_elses_stays_and_the_others_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let [html, markdown] = ["index.html", "matrix.md"].map(|name| dir.path().join(name));
    fs::write(&html, "mine").unwrap();
    let inode = || fs::metadata(&markdown).unwrap().ino();
    assert!(show(&doc(), dir.path()).in_the_way);
    let first = inode();
    let mut doc = doc();
    (
        doc.summary.seconds,
        doc.summary.executed,
        doc.cases[0].cached,
    ) = (7.0, 7, !doc.cases[0].cached);
    assert!(show(&doc, dir.path()).in_the_way);
    assert_eq!(
        (inode(), fs::read_to_string(&html).unwrap()),
        (first, "mine".to_owned())
    );
    doc.cases[0].reason = Some("another".into());
    show(&doc, dir.path());
    assert_ne!(inode(), first);
}

fn site(pages: [(&str, &str); 3]) -> crate::report::site::Files {
    let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    pages.into_iter().map(owned).collect()
}

#[test]
fn a_site_that_was_interrupted_is_completed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let old = site([
        ("index.html", "old"),
        ("a/1.html", "old 1"),
        ("b.html", "b"),
    ]);
    let new = site([
        ("index.html", "new"),
        ("a/1.html", "new 1"),
        ("b.html", "b"),
    ]);
    let place = |files| place_site(files, dir.path(), &mut Handed::default()).unwrap();
    assert_eq!(place(&old), [3, 0, 0]);
    let list = dir.path().join(crate::base::mark::NAME);
    let before = fs::read_to_string(&list).unwrap();
    place(&new);
    let after = fs::read_to_string(&list).unwrap();
    // As a killed one leaves it: all is announced, and only one page is new.
    fs::write(&list, before + &after).unwrap();
    fs::write(dir.path().join("a/1.html"), "old 1").unwrap();
    assert_eq!(place(&new), [1, 2, 0]);
    assert_eq!(
        fs::read_to_string(dir.path().join("a/1.html")).unwrap(),
        "new 1"
    );
}

#[test]
fn a_list_of_somebody_elses_removes_nothing_outside_of_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let public = dir.path().join("public");
    fs::create_dir_all(&public).unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "").unwrap();
    std::os::unix::fs::symlink(dir.path(), public.join("out")).unwrap();
    let empty = Digest::of(b"");
    let names = ["../victim", &victim.display().to_string(), "out/victim"].map(str::to_owned);
    let lines = names.map(|name| format!("{empty}  {name}\n"));
    fs::write(public.join(crate::base::mark::NAME), lines.concat()).unwrap();
    let pages = site([("index.html", "i"), ("a.html", "a"), ("b.html", "b")]);
    place_site(&pages, &public, &mut Handed::default()).unwrap();
    assert!(victim.exists());
}

#[test]
fn a_first_page_that_is_somebody_elses_stays() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index.html");
    fs::write(&index, "mine").unwrap();
    let pages = site([("index.html", "i"), ("a.html", "a"), ("b.html", "b")]);
    let mut handed = Handed::default();
    place_site(&pages, dir.path(), &mut handed).unwrap();
    assert!(handed.in_the_way);
    assert_eq!(fs::read_to_string(&index).unwrap(), "mine");
}
