//! What stays on a remote store until something reads it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files;
use crate::support::{Sandbox, flip_byte};

/// A large tree, a small one that is made of it, and one that is made of the small one.
const LARGE: &str = "version: 1
commands:
  large: {argv: [sh, -c, 'yes 0123456789abcde | head -c 40000000 > file'], outputs: [file]}
  small: {argv: [sh, -c, 'head -c 16 x/file > out'], outputs: [out], inputs: {x: {step: 'command:large'}}}
  last: {argv: [sh, -c, 'cat x/out > out'], outputs: [out], inputs: {x: {step: 'command:small'}}}
";
const LAST: [&str; 5] = ["run", "spec.yaml", "--json", "--step", "command:last"];

fn checkout(remote: &Path, spec: &str) -> Sandbox {
    sharing(&format!("file://{}", remote.display()), spec)
}

fn sharing(remote: &str, spec: &str) -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", spec)
        .env("ORCH_REMOTE", remote)
}

/// Fills a remote, and sees a large tree stay there until a step reads it.
pub(crate) fn is_left(remote: &str) {
    sharing(remote, LARGE).run(LAST).success();
    let same = sharing(remote, LARGE);
    same.run(LAST).success().summary([("executed", 0)]);
    assert!(held(&same) < 1000, "{}", held(&same));
    let other = sharing(remote, &changed("head -c 16", "head -c 32"));
    other
        .run(LAST)
        .success()
        .summary([("executed", 2), ("fetched", 1)])
        .stderr_lacks("warning");
    assert_eq!(other.output("command:small", "out").len(), 32);
}

/// A folder as a remote that holds the results of [`LARGE`].
fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let maker = checkout(dir.path(), LARGE);
    maker.run(LAST).success().summary([("executed", 3)]);
    dir
}

/// The content of 40 MB on the remote.
fn large(remote: &Path) -> PathBuf {
    let mut all = files(remote).into_iter();
    all.find(|path| fs::metadata(path).unwrap().len() > 1 << 24)
        .expect("the remote has the large content")
}

/// The bytes that a checkout's store holds as contents.
fn held(sandbox: &Sandbox) -> u64 {
    let all = sandbox.stored_files("blobs");
    all.iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum()
}

fn changed(old: &str, new: &str) -> String {
    assert!(LARGE.contains(old));
    LARGE.replace(old, new)
}

#[test]
fn a_large_tree_that_nothing_reads_stays() {
    let remote = filled();
    let sandbox = checkout(remote.path(), LARGE);
    for _ in 0..2 {
        // A tree that is not here is requested again by each run, which executes nothing.
        sandbox
            .run(LAST)
            .success()
            .summary([("executed", 0), ("failed", 0)])
            .stderr_lacks("warning");
        assert!(held(&sandbox) < 1000, "{}", held(&sandbox));
    }
    assert_eq!(sandbox.output("command:last", "out"), "0123456789abcde\n");
    sandbox.run(["cache", "verify"]).success();
    // By name, or with everything, it comes.
    let by_name = ["run", "spec.yaml", "--json", "--step", "command:large"];
    sandbox.run(by_name).success().summary([("fetched", 1)]);
    assert!(held(&sandbox) > 40_000_000);
    sandbox.run(LAST).success().stderr_lacks("remote");
    let eager = checkout(remote.path(), LARGE);
    eager
        .run([&LAST[..], &["--download", "all"]].concat())
        .success()
        .summary([("executed", 0), ("fetched", 3)]);
    assert!(held(&eager) > 40_000_000);
}

#[test]
fn a_large_tree_comes_when_a_step_reads_it() {
    let remote = filled();
    let sandbox = checkout(remote.path(), &changed("head -c 16", "head -c 32"));
    sandbox
        .run(LAST)
        .success()
        .summary([("executed", 2), ("fetched", 1)])
        .stderr_has("(38 MiB)")
        .stderr_lacks("warning");
    assert_eq!(sandbox.output("command:small", "out").len(), 32);
    assert!(held(&sandbox) > 40_000_000);
    sandbox.run(["cache", "verify"]).success();
    // From now on it is here, with its record.
    sandbox
        .run(LAST)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("remote");
}

/// Of several steps that read it at once, one fetches it and the others wait for that.
#[test]
fn a_large_tree_that_several_steps_read_comes_once() {
    let remote = filled();
    let reader = |number: usize| {
        format!(
            "  r{number}: {{argv: [sh, -c, 'tail -c {number} x/file > out'], outputs: [out], \
             inputs: {{x: {{step: 'command:large'}}}}}}\n"
        )
    };
    let readers: String = (1..=8).map(reader).collect();
    let sandbox = checkout(remote.path(), &format!("{LARGE}{readers}"));
    sandbox
        .run([
            "run",
            "spec.yaml",
            "--json",
            "--jobs",
            "8",
            "--step",
            "command:r*",
        ])
        .success()
        .summary([("executed", 8), ("fetched", 1), ("failed", 0)])
        .stderr_lacks("warning")
        .stderr_has("remote: 1 hit (38 MiB)");
    for journal in sandbox.journals() {
        let text = fs::read_to_string(journal).unwrap();
        assert!(!text.contains("an input was lost"), "{text}");
    }
    sandbox.run(["cache", "verify"]).success();
}

/// What happens to a file on the remote, and its name.
type Harm = (&'static str, fn(&Path));

/// Whatever is wrong with what stayed: its step runs again, and says why.
#[test]
fn a_tree_that_cannot_be_fetched_is_made_again() {
    let harms: [Harm; 3] = [
        ("gone", |at| fs::remove_file(at).unwrap()),
        ("changed", flip_byte),
        ("cut", |at| {
            let file = fs::OpenOptions::new().write(true).open(at).unwrap();
            file.set_len(17).unwrap();
        }),
    ];
    for (name, harm) in harms {
        let remote = filled();
        let sandbox = checkout(remote.path(), &changed("head -c 16", "head -c 48"));
        harm(&large(remote.path()));
        sandbox
            .run(LAST)
            .success()
            .summary([("executed", 3), ("failed", 0)])
            .stderr_has("cannot be fetched")
            .stderr_has("it runs again");
        assert_eq!(sandbox.output("command:small", "out").len(), 48, "{name}");
        sandbox.run(["cache", "verify"]).success();
        // The remote has it again, as it was.
        let heir = checkout(remote.path(), &changed("head -c 16", "head -c 64"));
        heir.run(LAST)
            .success()
            .summary([("executed", 2), ("fetched", 1)])
            .stderr_lacks("warning");
    }
}

/// Of a model that stays, the generated test of an artefact has what it compares with.
#[test]
fn references_come_without_the_weights() {
    let remote = tempfile::tempdir().unwrap();
    let model = "version: 1
include: [pipelines.yaml, targets.yaml]
matrix: {targets: [cpu]}
models:
  wide:
    class: BertModel
    family: encoder-only
    task: feature-extraction
    pipeline: text
    dims: {batch: 1, seq: 4}
    config: {vocab_size: 60000, hidden_size: 128, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 128}
    inputs: {input_ids: {dtype: int64, shape: [batch, seq], randint: [0, 60000]}}
";
    let new = || {
        let mut sandbox = Sandbox::new().installs().file("specs/all.yaml", model);
        for name in ["pipelines.yaml", "targets.yaml"] {
            let at = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("specs")
                .join(name);
            sandbox = sandbox.file(&format!("specs/{name}"), fs::read(at).unwrap());
        }
        sandbox.env("ORCH_REMOTE", format!("file://{}", remote.path().display()))
    };
    let run = ["run", "specs/all.yaml", "--json", "--check"];
    new().run(run).success().summary([("passed", 1)]);
    let second = new();
    second
        .run(run)
        .success()
        .summary([("passed", 1), ("executed", 0)])
        .stderr_has("2 artefacts stayed elsewhere");
    let folder = second.path("orch-out/artefacts/wide/model");
    let names: Vec<_> = files(&folder)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(
        names.iter().any(|name| name == "reference.safetensors"),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name == "model.safetensors"),
        "{names:?}"
    );
    assert!(
        held(&second) < 1 << 20,
        "{} bytes are in the store",
        held(&second)
    );
}
