//! What a probe of half precision is asked, and what it answered: the words of `orch devices`. Nothing is probed here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Backend;
use crate::spec::Precision;

/// One runtime on one device at one precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HalfQuestion {
    /// ort, openvino, python, browser, …
    pub runtime: String,
    pub backend: String,
    /// The runtime's own name of the device.
    pub device: String,
    /// fp16 or bf16
    pub precision: Precision,
}

/// The answer of a small computation there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HalfAnswer {
    #[serde(flatten)]
    pub question: HalfQuestion,
    /// Whether it computes in that precision, and not in fp32 under its name.
    pub computes: bool,
    /// How that was seen.
    pub why: String,
}

impl HalfAnswer {
    /// `half: no: ort on cpu at fp16: …`
    pub fn told(&self) -> String {
        format!("half: {}: {}", if self.computes { "yes" } else { "no" }, self.why)
    }
}

/// What there is to ask of a backend that is there.
pub fn questions(backend: &Backend) -> Vec<HalfQuestion> {
    use Precision::{Bf16, Fp16};
    let name = backend.name.as_str();
    let asked = |runtime: &str, device: &str, precision| HalfQuestion {
        runtime: runtime.to_owned(),
        backend: name.to_owned(),
        device: device.to_owned(),
        precision,
    };
    let both = |runtime: &str, device: &str| [asked(runtime, device, Fp16), asked(runtime, device, Bf16)];
    if !backend.available {
        return vec![];
    }
    match name {
        "cpu" | "cuda" | "rocm" => [vec![asked("ort", name, Fp16)], both("python", name).into()].concat(),
        "mps" => both("python", name).into(),
        "openvino" => {
            let ids = backend.devices.iter().filter_map(|device| device.id.strip_prefix("openvino:"));
            ids.flat_map(|device| both("openvino", device)).collect()
        }
        "webgpu" => vec![asked("ort", name, Fp16)],
        "webgpu-browser" => vec![asked("browser", "webgpu", Fp16)],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Host, inventory_cheap, render};

    fn asked(host: &str) -> Vec<String> {
        let backends = inventory_cheap(&Host::recorded(host));
        let told = |q: HalfQuestion| format!("{} {} {}", q.runtime, q.device, q.precision.word());
        backends.iter().flat_map(questions).map(told).collect()
    }

    #[test]
    fn only_devices_that_are_there_are_asked_and_each_by_its_runtimes() {
        let cpu = ["ort cpu fp16", "python cpu fp16", "python cpu bf16", "openvino CPU fp16", "openvino CPU bf16"];
        assert!(cpu.iter().all(|one| asked("neither").iter().any(|known| known == one)));
        assert!(!asked("neither").iter().any(|one| one.contains("cuda") || one.contains("rocm")));
        assert!(["ort cuda fp16", "python cuda bf16"].iter().all(|one| asked("nvidia").iter().any(|q| q == one)));
        assert!(asked("amd").iter().any(|one| one == "python rocm fp16"));
        assert!(asked("mac").iter().any(|one| one == "python mps fp16"));
    }

    #[test]
    fn what_a_device_answered_stands_in_the_list_beside_it() {
        let host = Host::recorded("nvidia");
        let mut backends = inventory_cheap(&host);
        let cuda = backends.iter_mut().find(|backend| backend.name == "cuda").unwrap();
        let answer =
            |question: HalfQuestion, computes, why: &str| HalfAnswer { question, computes, why: why.to_owned() };
        let [ort, python, ..] = &questions(cuda)[..] else { panic!("a GPU is asked") };
        cuda.half = vec![answer(ort.clone(), true, "it was seen"), answer(python.clone(), false, "the driver died")];
        let page = render::devices(&crate::device::fingerprint(&host), &backends, 100);
        assert!(page.contains("half: yes: it was seen\n"), "{page}");
        assert!(page.contains("half: no: the driver died\n"), "{page}");
        let json = serde_json::to_value(&backends[1]).unwrap();
        assert_eq!((&json["half"][0]["runtime"], &json["half"][0]["computes"]), (&"ort".into(), &true.into()));
    }
}
