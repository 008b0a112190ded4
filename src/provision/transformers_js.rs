//! The environment `transformers-js`: Transformers.js for the web, and of the ONNX Runtime Web that it is made for what a page
//! loads, from npm by a lock with hashes.
//!
//! Its dependencies for Node (`onnxruntime-node`, 300 MB, and `sharp`) never run in a page. npm knows no way to leave a
//! dependency out, so `package.json` puts a tiny package in their place that is installed anyhow.

use crate::base::fs as bfs;
use crate::provision::npm::Packages;
use crate::runtime::transformers_js::{ORT_FILES, ORT_WEB, SCRIPT};
use crate::toolchain::EnvName;

/// The folder of npm's packages in the environment.
const FOLDER: &str = "node_modules";

/// What is used is that folder.
pub(super) static PACKAGES: Packages = Packages {
    name: EnvName::TransformersJs,
    title: "Transformers.js",
    manifest: include_str!("../../node/transformers-js/package.json"),
    find: |home| Some(home.join(FOLDER)).filter(|packages| packages.join(SCRIPT).is_file()),
    finish: |_, staged, _, _| {
        // Other builds, and maps for debuggers: four fifths of it.
        let bundles = staged.join(FOLDER).join(ORT_WEB);
        for entry in std::fs::read_dir(&bundles)?.flatten() {
            if !ORT_FILES.iter().any(|kept| entry.file_name() == *kept) {
                bfs::remove_file(entry.path())?;
            }
        }
        Ok(())
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::{Locks, Tool};

    #[test]
    fn nothing_for_node_is_installed_and_the_runtime_is_the_one_it_is_made_for() {
        let locks = Locks::default();
        let lock: serde_json::Value =
            serde_json::from_str(locks.text(EnvName::TransformersJs)).unwrap();
        let of = |name: &str| &lock["packages"][format!("node_modules/{name}")];
        for name in ["onnxruntime-node", "sharp"] {
            assert_eq!(of(name)["name"], "guid-typescript", "{name}");
        }
        let made_for = &of("@huggingface/transformers")["dependencies"]["onnxruntime-web"];
        assert_eq!(made_for, &of("onnxruntime-web")["version"]);
        let package = "@huggingface/transformers";
        let identity = locks.identity(Tool {
            env: EnvName::TransformersJs,
            package,
        });
        let manifest: serde_json::Value = serde_json::from_str(PACKAGES.manifest).unwrap();
        assert!(
            identity.starts_with(&format!(
                "{}+",
                manifest["dependencies"][package].as_str().unwrap()
            )),
            "{identity}"
        );
    }
}
