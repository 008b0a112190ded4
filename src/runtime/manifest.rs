//! `manifest.json` of a tree, as far as runtimes read it: the names and the order of what goes in and comes out.
//!
//! Which files a format has and who wrote them is not known here (docs/design/trees.md).

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::fs as bfs;

/// Names in the artefact's own order; everything else is carried along untouched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Manifest {
    pub fn read(tree: &Path) -> anyhow::Result<Self> {
        let path = tree.join("manifest.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("failed to read `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("failed to read `{}`", path.display()))
    }

    pub fn write(&self, tree: &Path) -> anyhow::Result<()> {
        let path = tree.join("manifest.json");
        let text = serde_json::to_string_pretty(self).context("failed to serialise a manifest")?;
        bfs::write_new(&path, text + "\n")
            .with_context(|| format!("failed to write `{}`", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_and_the_rest_survives() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"format":"onnx","inputs":["b","a"],"outputs":["z"],"opset":18}"#;
        std::fs::write(folder.path().join("manifest.json"), text).unwrap();
        let manifest = Manifest::read(folder.path()).unwrap();
        assert_eq!(manifest.inputs, ["b", "a"]);
        assert_eq!(manifest.rest["opset"], 18);
        manifest.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest);
    }

    #[test]
    fn a_missing_manifest_names_its_path() {
        let error = Manifest::read(Path::new("/nowhere"))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "failed to read `/nowhere/manifest.json`");
    }
}
