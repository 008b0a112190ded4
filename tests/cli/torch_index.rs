//! PyTorch from an index of the user's: locked by what the index has, installed by that lock, and nothing of CUDA.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orch::device::{Host, cuda};

use crate::support::Sandbox;

/// An index with a small wheel of each package, as PyTorch's has them for CPUs, on a port of its own.
const INDEX: &str = r#"
import base64, functools, hashlib, http.server, pathlib, sys, zipfile

root = pathlib.Path("index")

def wheel(name, version, requires):
    code = f"__version__ = '{version}'\n".encode()
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
    files = {
        f"{name}/version.py": code,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    of = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = "".join(f"{path},sha256={of(content)},{len(content)}\n" for path, content in files.items())
    folder = root / name
    folder.mkdir(parents=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "index.html").write_text(f'<a href="{path.name}#sha256={digest}">{path.name}</a>')

wheel("torch", "2.13.0+cpu", ["filelock", "typing-extensions>=4.10", "sympy", "networkx", "jinja2", "fsspec"])
wheel("torchvision", "0.28.0+cpu", ["numpy", "torch==2.13.0", "pillow"])
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="index")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
pathlib.Path("port.tmp").write_text(str(server.server_address[1]))
pathlib.Path("port.tmp").rename("port")
server.serve_forever()
"#;

struct Index(Child);

impl Drop for Index {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn index(sandbox: &Sandbox) -> (Index, String) {
    let mut python = Command::new("python3");
    python
        .args(["-c", INDEX])
        .current_dir(sandbox.path(""))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let server = Index(python.spawn().unwrap());
    let begin = Instant::now();
    while !sandbox.path("port").exists() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the index does not start"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, format!("http://127.0.0.1:{}", sandbox.read("port")))
}

/// The one environment of a folder, `torch-…`.
fn site(envs: &Path) -> std::path::PathBuf {
    let is_torch =
        |path: &std::path::PathBuf| path.is_dir() && path.to_string_lossy().contains("/torch-");
    let homes = std::fs::read_dir(envs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found: Vec<_> = homes.filter(is_torch).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let lib = std::fs::read_dir(found[0].join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    lib.join("site-packages")
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn pytorch_comes_from_an_index_of_the_users_by_hash_and_without_cuda() {
    let sandbox = Sandbox::new().installs();
    let envs = sandbox.path("envs");
    let sandbox = sandbox.env("ORCH_ENV_DIR", envs.to_str().unwrap());
    let (_server, url) = index(&sandbox);
    let ask = ["setup", "torch", "--torch-index", &url];
    sandbox.run(ask).code(2).stderr_has("--locks or ORCH_LOCKS");
    let secret = url.replace("http://", "http://me:secret@");
    let told = sandbox.run([
        "setup",
        "torch",
        "--torch-index",
        &secret,
        "--locks",
        "locks",
    ]);
    told.code(2)
        .stderr_has("with its password")
        .stderr_lacks("secret");
    sandbox
        .run(["setup", "ort", "--torch-index", &url, "--locks", "locks"])
        .code(2)
        .stderr_has("has no PyTorch");

    let sandbox = sandbox.env("ORCH_LOCKS", "locks");
    sandbox
        .run(ask)
        .success()
        .stderr_has("wrote locks/torch.txt")
        .stderr_has("python environment `torch`: done");
    let own = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/python/requirements/torch.txt"
    ))
    .unwrap();
    let lock = sandbox.read("locks/torch.txt");
    assert!(
        lock.starts_with(&format!("--extra-index-url {url}\n")),
        "{lock}"
    );
    for asked in ["torch==2.13.0+cpu", "torchvision==0.28.0+cpu"] {
        assert!(
            lock.contains(&format!("\n{asked} \\\n    --hash=sha256:")),
            "{asked}: {lock}"
        );
    }
    for gone in ["nvidia-", "cuda-", "triton==", "\ntorch==2.13.0 "] {
        assert!(!lock.contains(gone) && own.contains(gone), "{gone}: {lock}");
    }
    // What is not PyTorch's keeps its hashes.
    let of = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("\n{name}==")).unwrap();
        let lines: Vec<_> = rest
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with(' '))
            .map(str::to_owned)
            .collect();
        lines
    };
    assert!(of(&own, "numpy").len() > 10);
    assert_eq!(of(&lock, "numpy"), of(&own, "numpy"));
    let site = site(&envs);
    assert_eq!(
        std::fs::read_to_string(site.join("torch/version.py")).unwrap(),
        "__version__ = '2.13.0+cpu'\n"
    );
    assert!(site.join("transformers").is_dir() && !site.join("nvidia").exists());
    // Later commands go by the lock, and no index is asked.
    sandbox
        .run(["setup", "torch"])
        .success()
        .stderr_has("there already")
        .stderr_lacks("NVIDIA");

    let (begin, digest) = lock
        .split_once("torch==2.13.0+cpu \\\n    --hash=sha256:")
        .unwrap();
    let forged = format!(
        "{begin}torch==2.13.0+cpu \\\n    --hash=sha256:{}{}",
        "0".repeat(64),
        &digest[64..]
    );
    sandbox.write("locks/torch.txt", forged);
    let ended = sandbox.run(["setup", "torch"]).code(2);
    ended
        .stderr_has("to install: python environment `torch` (size unknown)")
        .stderr_has("Hash mismatch");
    sandbox.write("locks/torch.txt", "numpy==2.4.6\n");
    sandbox
        .run(["setup", "torch"])
        .code(2)
        .stderr_has("names no hash of numpy");
    std::fs::remove_file(sandbox.path("locks/torch.txt")).unwrap();
    sandbox
        .run(["setup", "torch"])
        .code(2)
        .stderr_has("holds no lock");
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_machine_without_nvidia_that_works_alone_takes_pytorch_without_cuda_by_itself() {
    if cuda::is_seen(&Host::real()) {
        return;
    }
    let sandbox = Sandbox::new().installs();
    let envs = sandbox.path("envs");
    let (_server, url) = index(&sandbox);
    let sandbox = sandbox
        .env("ORCH_ENV_DIR", envs.to_str().unwrap())
        .env("ORCH_TORCH_INDEX", &url);
    let ended = sandbox.run(["setup", "torch"]).success();
    ended
        .stderr_has("no NVIDIA GPU is here")
        .stderr_has("python environment `torch`: done");
    let version = std::fs::read_to_string(site(&envs).join("torch/version.py")).unwrap();
    assert_eq!(version, "__version__ = '2.13.0+cpu'\n");
    // Decided once for these environments.
    sandbox
        .run(["setup", "torch"])
        .success()
        .stderr_has("there already")
        .stderr_lacks("NVIDIA");
    let folders = std::fs::read_dir(&envs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let locks: Vec<_> = folders
        .filter(|path| path.join("litert.txt").is_file())
        .collect();
    let [locks] = &locks[..] else {
        panic!("{locks:?}")
    };
    assert!(
        std::fs::read_to_string(locks.join("torch.txt"))
            .unwrap()
            .contains("\ntorch==2.13.0+cpu ")
    );
}

/// On a machine that can install nothing, so that only what it says first is seen.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn pypis_pytorch_is_taken_where_results_are_shared_or_no_other_is_to_be_had() {
    if cuda::is_seen(&Host::real()) {
        return;
    }
    let nowhere = "http://127.0.0.1:9/simple";
    let sandbox = Sandbox::new()
        .installs()
        .env("PIP_INDEX_URL", nowhere)
        .env("PIP_RETRIES", "0");
    let sandbox = sandbox
        .env("UV_DEFAULT_INDEX", nowhere)
        .env("UV_HTTP_RETRIES", "0")
        .env("UV_OFFLINE", "0");
    let envs = sandbox.path("envs");
    let packages = sandbox.path("packages");
    let sandbox = sandbox
        .env("ORCH_ENV_DIR", envs.to_str().unwrap())
        .env("UV_CACHE_DIR", packages.to_str().unwrap());
    let pypis = || {
        sandbox
            .run(["setup", "torch"])
            .code(2)
            .stderr_has("python environment `torch` (4.7 GiB)")
    };
    pypis().stderr_lacks("NVIDIA").stderr_lacks("without");

    let sandbox = sandbox.env("ORCH_TORCH_INDEX", nowhere);
    let pypis = || {
        sandbox
            .run(["setup", "torch"])
            .code(2)
            .stderr_has("python environment `torch` (4.7 GiB)")
    };
    pypis()
        .stderr_has("so PyTorch is PyPI's")
        .stderr_has(nowhere);
    sandbox.write("orch.toml", "[remote]\nurl = 'file:///nowhere'\n");
    pypis().stderr_lacks("PyPI's");
    sandbox.write("orch.toml", "[executor]\nurl = 'grpc://127.0.0.1:9'\n");
    pypis().stderr_lacks("PyPI's");
}
