//! An action made of a command and the files that it reads: folders as messages, and the blobs that a server needs.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bazel_remote_apis::google::protobuf::Duration as Limit;
use prost::Message;

use crate::reapi::blobs::Blob;
use crate::reapi::hash::Function;
use crate::reapi::proto::command::EnvironmentVariable;
use crate::reapi::proto::platform::Property;
use crate::reapi::proto::{
    Action, Command, Digest, Directory, DirectoryNode, FileNode, Platform, Tree,
};

/// What is to be executed.
#[derive(Debug, Default)]
pub struct Task {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub properties: BTreeMap<String, String>,
    pub files: Vec<Input>,
    /// Files and folders that are kept, relative to where it works.
    pub outputs: Vec<String>,
    /// The time that the server is requested to allow it; None for what it allows by itself. Servers refuse more than their longest.
    pub timeout: Option<Duration>,
}

/// A file at its place, relative and with slashes.
#[derive(Debug)]
pub struct Input {
    pub path: String,
    pub blob: Blob,
    pub is_executable: bool,
}

#[derive(Default)]
struct Folder {
    files: BTreeMap<String, (Digest, bool)>,
    folders: BTreeMap<String, Folder>,
}

impl Folder {
    fn add(&mut self, path: &str, digest: Digest, is_executable: bool) {
        match path.split_once('/') {
            None => drop(self.files.insert(path.to_owned(), (digest, is_executable))),
            Some((folder, rest)) => {
                self.folders
                    .entry(folder.to_owned())
                    .or_default()
                    .add(rest, digest, is_executable)
            }
        }
    }

    /// Its message; those of the folders in it go to `blobs`.
    fn close(self, function: Function, blobs: &mut Vec<Blob>) -> Digest {
        let files = self
            .files
            .into_iter()
            .map(|(name, (digest, is_executable))| FileNode {
                name,
                digest: Some(digest),
                is_executable,
                ..FileNode::default()
            });
        let folders = self.folders.into_iter().map(|(name, folder)| {
            let digest = Some(folder.close(function, blobs));
            DirectoryNode { name, digest }
        });
        let message = Directory {
            directories: folders.collect(),
            files: files.collect(),
            ..Directory::default()
        };
        let blob = Blob::of_message(&message, function);
        let digest = blob.digest.clone();
        blobs.push(blob);
        digest
    }
}

impl Task {
    /// The digest of its action, and every blob that a server must have to execute it.
    pub(super) fn close(self, function: Function) -> (Digest, Vec<Blob>) {
        let mut blobs = Vec::new();
        let mut root = Folder::default();
        for Input {
            path,
            blob,
            is_executable,
        } in self.files
        {
            root.add(&path, blob.digest.clone(), is_executable);
            blobs.push(blob);
        }
        let input_root = root.close(function, &mut blobs);
        // By name, as the API wants all of them.
        let env = self
            .env
            .into_iter()
            .map(|(name, value)| EnvironmentVariable { name, value });
        let properties = self
            .properties
            .into_iter()
            .map(|(name, value)| Property { name, value });
        let platform = Platform {
            properties: properties.collect(),
        };
        let mut outputs = self.outputs;
        outputs.sort();
        #[expect(
            deprecated,
            reason = "older servers look for the platform in the command"
        )]
        let command = Command {
            arguments: self.argv,
            environment_variables: env.collect(),
            output_paths: outputs,
            platform: Some(platform.clone()),
            ..Command::default()
        };
        let command = Blob::of_message(&command, function);
        let timeout = self.timeout.map(|limit| Limit {
            seconds: limit.as_secs() as i64,
            nanos: limit.subsec_nanos() as i32,
        });
        let action = Action {
            command_digest: Some(command.digest.clone()),
            input_root_digest: Some(input_root),
            timeout,
            platform: Some(platform),
            ..Action::default()
        };
        let action = Blob::of_message(&action, function);
        let digest = action.digest.clone();
        blobs.extend([command, action]);
        (digest, blobs)
    }
}

/// The files of an output folder by their paths in it; None if the message is none, or refers to what it lacks.
pub(super) fn files_of(tree: &[u8], function: Function) -> Option<Vec<(String, Digest)>> {
    let tree = Tree::decode(tree).ok()?;
    let children: HashMap<String, Directory> = tree
        .children
        .into_iter()
        .map(|child| (function.of(&child.encode_to_vec()).hash, child))
        .collect();
    let mut files = Vec::new();
    // Each folder is met once for each way to it; a tree deeper than this is nobody's output.
    let mut open = vec![(String::new(), tree.root?, 0)];
    while let Some((at, folder, depth)) = open.pop() {
        if depth > 100 || files.len() > 1 << 20 {
            return None;
        }
        for file in folder.files {
            files.push((format!("{at}{}", file.name), file.digest?));
        }
        for child in folder.directories {
            let directory = children.get(&child.digest?.hash)?.clone();
            open.push((format!("{at}{}/", child.name), directory, depth + 1));
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reapi::blobs::Content;

    /// A server refuses what asks for more than its longest, and reports to nobody how long that is.
    #[test]
    fn a_server_gets_a_timeout_only_where_one_is_given() {
        let timeout_of = |timeout| {
            let (_, blobs) = Task {
                timeout,
                ..Task::default()
            }
            .close(Function::Sha256);
            let Some(Content::Bytes(bytes)) = blobs.last().map(|blob| &blob.content) else {
                panic!("{blobs:?}")
            };
            Action::decode(bytes.as_slice())
                .unwrap()
                .timeout
                .map(|limit| (limit.seconds, limit.nanos))
        };
        assert_eq!(timeout_of(None), None);
        assert_eq!(
            timeout_of(Some(Duration::from_millis(1500))),
            Some((1, 500_000_000))
        );
    }
}
