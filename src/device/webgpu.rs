//! WebGPU: a GPU (or a software rasterizer) as a browser offers it. Evidence is an adapter *and* a device that a page got;
//! this version opens no page, so it never reports the backend as available.

use super::host::Host;
use super::{Look, Prober, web};

pub struct WebGpu;

impl Prober for WebGpu {
    fn name(&self) -> &'static str {
        "webgpu"
    }

    fn look(&self, host: &Host, thorough: bool) -> Look {
        let mut look = web::look(host, thorough, "webgpu", "an adapter", |_| true);
        let drivers: Vec<String> = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
            .iter()
            .flat_map(|folder| host.list(folder).into_iter().map(move |file| format!("{folder}/{file}")))
            .filter(|path| path.ends_with(".json"))
            .collect();
        if !drivers.is_empty() {
            look.backend.fact("vulkan_drivers", drivers);
        }
        let nodes = host.list("/dev/dri");
        let nodes: Vec<_> = nodes.into_iter().filter(|node| node.starts_with("renderD")).collect();
        if !nodes.is_empty() {
            look.backend.fact("render_nodes", nodes);
        }
        // Chromium brings its own rasterizer: without a GPU driver its adapter is software and must be labelled so.
        let swiftshader = "/usr/lib/chromium/vk_swiftshader_icd.json";
        look.backend.fact("software_rasterizer", host.exists(swiftshader).then_some(swiftshader));
        look
    }
}
