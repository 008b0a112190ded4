//! Azure Blob Storage and Google Cloud Storage, each as a real server on this machine speaks it.

use crate::servers::{AZURE, AZURE_READS, AZURE_WRITES, azure, gcs, is_done_without, request};
use crate::support::Sandbox;
use crate::{RUN, SPEC, files, is_shared, is_shared_in_parts};

fn checkout(toml: &str) -> Sandbox {
    Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("orch.toml", toml)
}

#[test]
fn two_checkouts_share_an_azure_container() {
    if is_done_without("Azure Blob Storage") {
        return;
    }
    let server = azure("container");
    let endpoint = format!("http://127.0.0.1:{}/{AZURE}", server.port);
    let to =
        |url: &str| format!("[remote]\nurl = '{url}'\noptions = {{endpoint = '{endpoint}'}}\n");
    let with = |token: &str| {
        checkout(&to("azblob://container/a/b")).env("ORCH_REMOTE_OPTION_SAS_TOKEN", token)
    };
    is_shared(|| with(AZURE_WRITES));
    is_shared_in_parts(|| with(AZURE_WRITES));

    // Whose token cannot write shares what is there, and says what it could not send.
    let reader = with(AZURE_READS);
    reader
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)])
        .stderr_lacks("warning");
    let reader = reader.file("spec.yaml", SPEC.replace("echo content", "echo other"));
    reader
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("AuthorizationPermissionMismatch");
    let reader = with(AZURE_READS).env("ORCH_REMOTE_MODE", "read-only");
    let reader = reader.file("spec.yaml", SPEC.replace("echo content", "echo other"));
    reader
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("warning");

    // Content that somebody has changed is found, made here and replaced.
    let blob = orch::base::Digest::of(b"content\ncontent\n").to_string();
    let path = format!(
        "/{AZURE}/container/a/b/v2/blobs/{}/{blob}?{AZURE_WRITES}",
        &blob[..2]
    );
    let head = "HTTP/1.1\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: 0";
    let answer = request(server.port, &format!("PUT {path} {head}"));
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let victim = with(AZURE_WRITES);
    let ended = victim
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    ended.stderr_has("1 result refused (wrong content)");
    assert_eq!(
        victim.output("command:second", "twice"),
        "content\ncontent\n"
    );
    with(AZURE_WRITES)
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");

    // By the account's name and key from the environment, which is wrong; with nothing; and to the wrong place.
    let bare = |url: &str| checkout(&to(url)).env("AZURE_STORAGE_ACCOUNT_NAME", AZURE);
    let wrong = bare("azblob://container").env("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=");
    wrong
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("not reachable: Authorization");
    bare("azblob://container")
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("no credentials were found")
        .stdout_has("SAS");
    let nowhere =
        checkout(&to("azblob://nowhere")).env("ORCH_REMOTE_OPTION_SAS_TOKEN", AZURE_WRITES);
    nowhere
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("not reachable: ContainerNotFound");
    nowhere
        .run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_has("warning remote: ")
        .stderr_has("ContainerNotFound");
    let nobody = checkout("[remote]\nurl = 'azblob://container'\n");
    nobody
        .run(RUN)
        .code(2)
        .stderr_has("names no account")
        .stderr_has("account_name");
}

#[test]
fn two_checkouts_share_a_google_bucket() {
    if is_done_without("Google Cloud Storage") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = gcs(dir.path(), "bucket");
    let to = |url: &str, more: &str| {
        let port = server.port;
        checkout(&format!(
            "[remote]\nurl = '{url}'\noptions = {{endpoint = 'http://127.0.0.1:{port}'{more}}}\n"
        ))
    };
    let new = || to("gs://bucket/a/b", ", token = 'any'");
    is_shared(new);
    assert!(!files(dir.path()).is_empty());

    let only = new()
        .env("ORCH_REMOTE_MODE", "read-only")
        .file("spec.yaml", SPEC.replace("echo content", "echo other"));
    only.run(RUN)
        .success()
        .summary([("executed", 2)])
        .stderr_lacks("warning");

    let blob = orch::base::Digest::of(b"content\ncontent\n").to_string();
    let path = format!(
        "/upload/storage/v1/b/bucket/o?uploadType=media&name=a/b/v2/blobs/{}/{blob}",
        &blob[..2]
    );
    let answer = request(
        server.port,
        &format!("POST {path} HTTP/1.1\r\nContent-Length: 0"),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let victim = new();
    let ended = victim
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    ended.stderr_has("1 result refused (wrong content)");
    new()
        .run(RUN)
        .success()
        .summary([("executed", 0)])
        .stderr_lacks("warning");

    let none = to(
        "gs://bucket",
        ", disable_vm_metadata = true, disable_config_load = true",
    );
    none.run(["cache", "remote"])
        .code(1)
        .stdout_has("no credentials were found")
        .stdout_has("GOOGLE_");
    to("gs://nowhere", ", token = 'any'")
        .run(["cache", "remote"])
        .code(1)
        .stdout_has("no such bucket");
}
