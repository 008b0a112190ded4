//! Command lines: what a browser needs so that a page gets WebGPU or WebNN, and that it leaves the network alone.

use serde::{Deserialize, Serialize};

/// What a page is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    WebGpu,
    WebNn,
    /// Neither: ONNX Runtime Web on the CPU.
    Wasm,
}

/// The adapter that WebGPU shall give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adapter {
    /// That of a GPU and its driver.
    Hardware,
    /// Chromium's own rasterizer, SwiftShader: slow, and labelled wherever it is shown.
    Software,
}

const QUIET: &[&str] = &[
    "--headless",
    // The browser's own errors are in the log of the step then.
    "--enable-logging=stderr",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-quic",
    "--disable-sync",
    // No process beside the browser that would outlive it to report its end.
    "--disable-breakpad",
    "--disable-crash-reporter",
    // Containers often have 64 MiB of shared memory, which a model exceeds.
    "--disable-dev-shm-usage",
    // Nobody looks at the page, and it must not be slowed down for that.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--password-store=basic",
    "--proxy-server=direct://",
    "--use-mock-keychain",
];

/// Flags of a browser that shows one page after another, as commands order it to.
///
/// All pages are of one site and share a process, and with it the compiled code of ONNX Runtime Web, which is 26 MB of
/// WebAssembly: to compile it is most of the work of a small model's page. The code stays as it comes from the fast
/// compiler, unless a function does very much; the other one would optimise for pages that are gone.
const MANY_PAGES: &[&str] = &[
    "--remote-debugging-pipe",
    "--no-startup-window",
    "--process-per-site",
    "--js-flags=--no-flush-liftoff-code,--wasm-tiering-budget=1000000000",
];

/// [`flags`] of a browser that shows one page after another.
pub(super) fn of_many_pages(api: Api, adapter: Adapter) -> Vec<String> {
    flags(api, adapter)
        .into_iter()
        .chain(MANY_PAGES.iter().map(|flag| (*flag).to_owned()))
        .collect()
}

/// All but those that name a path or an address of this machine.
pub fn flags(api: Api, adapter: Adapter) -> Vec<String> {
    let mut flags: Vec<&str> = QUIET.to_vec();
    if rustix::process::geteuid().is_root() {
        // Chromium's sandbox refuses to run as root. What it opens here is a page of orch's own.
        flags.push("--no-sandbox");
    }
    // Of several --enable-features the last one wins, so there is one.
    match (api, adapter) {
        (Api::WebGpu, Adapter::Software) => {
            flags.extend(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"])
        }
        (Api::WebGpu, Adapter::Hardware) => {
            flags.extend(["--enable-unsafe-webgpu", "--ignore-gpu-blocklist"]);
            if cfg!(target_os = "linux") {
                flags.push("--enable-features=Vulkan");
            }
        }
        (Api::WebNn, _) => flags.push("--enable-features=WebMachineLearningNeuralNetwork"),
        (Api::Wasm, _) => {}
    }
    flags.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_stand_in_one_flag_and_only_software_names_its_adapter() {
        for (api, adapter) in [
            (Api::WebGpu, Adapter::Software),
            (Api::WebGpu, Adapter::Hardware),
            (Api::WebNn, Adapter::Hardware),
            (Api::WebNn, Adapter::Software),
            (Api::Wasm, Adapter::Software),
        ] {
            let flags = flags(api, adapter);
            assert!(
                flags
                    .iter()
                    .filter(|flag| flag.starts_with("--enable-features"))
                    .count()
                    <= 1,
                "{flags:?}"
            );
            let forced = flags.iter().any(|flag| flag.contains("swiftshader"));
            assert_eq!(forced, (api, adapter) == (Api::WebGpu, Adapter::Software));
        }
    }
}
