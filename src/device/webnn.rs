//! WebNN as a browser offers it. Evidence is a context that a page got *and* one operator that ran rightly on it;
//! `navigator.ml` alone is none. Contexts for a GPU or NPU are granted also where there is none, so they are reported and
//! not claimed.

use serde_json::Value;

use super::host::Host;
use super::web::BrowserProber;
use super::{Device, DeviceKind};
use crate::browser::Api;

pub(super) static PROBER: BrowserProber = BrowserProber {
    name: "webnn",
    api: Api::WebNn,
    before_page,
    answered,
};

fn before_page(host: &Host) -> Device {
    Device::new(
        "webnn:cpu",
        super::cpu::read(host).model,
        DeviceKind::Hardware,
    )
}

fn answered(answer: &Value) -> Result<Device, String> {
    let of = |device: &str| answer[device].as_str().unwrap_or("no answer").to_owned();
    if of("cpu") != "ran" {
        let why = answer["error"]
            .as_str()
            .map_or_else(|| of("cpu"), str::to_owned);
        return Err(format!(
            "the browser was asked for a context and one operator: {why}"
        ));
    }
    let mut device = Device::new("webnn:cpu", "", DeviceKind::Hardware);
    for other in ["gpu", "npu"] {
        let state = match of(other).as_str() {
            "ran" => "a context is granted; what executes it the browser does not say, so it is not claimed".to_owned(),
            why => why.to_owned(),
        };
        device.fact(other, state);
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_operator_that_ran_is_evidence_and_only_for_the_cpu() {
        let device =
            answered(&json!({"cpu": "ran", "gpu": "ran", "npu": "NotSupportedError"})).unwrap();
        assert_eq!(device.id, "webnn:cpu");
        assert!(
            device.facts["gpu"]
                .as_str()
                .unwrap()
                .contains("not claimed")
        );
        assert_eq!(device.facts["npu"], "NotSupportedError");
        let debian =
            answered(&json!({"cpu": "NotSupportedError: WebNN is not compiled in", "gpu": "ran"}));
        assert!(debian.unwrap_err().contains("WebNN is not compiled in"));
        assert!(
            answered(&json!({"error": "navigator.ml is missing"}))
                .unwrap_err()
                .contains("navigator.ml")
        );
    }
}
