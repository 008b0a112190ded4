//! WebGPU as a browser offers it. Evidence is an adapter *and* a device that a page got; a fallback adapter is software.

use serde_json::Value;

use super::host::Host;
use super::web::{self, BrowserProber};
use super::{Device, DeviceKind};
use crate::base::ensure;
use crate::browser::Api;

const NAME: &str = "webgpu-browser";

pub(super) static PROBER: BrowserProber = BrowserProber {
    name: NAME,
    api: Api::WebGpu,
    before_page,
    answered,
};

/// What is known of the device before a page was opened.
fn before_page(host: &Host) -> Device {
    let kind = if web::has_gpu(host) {
        DeviceKind::Hardware
    } else {
        DeviceKind::Software
    };
    Device::new(NAME, "WebGPU of the browser, not asked yet", kind)
}

fn answered(answer: &Value) -> Result<Device, String> {
    if let Some(error) = answer["error"].as_str() {
        return Err(format!(
            "the browser was asked for an adapter and a device: {error}"
        ));
    }
    let word = |key: &str| answer[key].as_str().unwrap_or_default();
    let name = [word("vendor"), word("architecture"), word("description")].join(" ");
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure(!name.is_empty(), || {
        "the browser gave a device and does not say of which adapter".to_owned()
    })?;
    let is_software =
        answer["is_fallback_adapter"] == true || word("architecture") == "swiftshader";
    let kind = if is_software {
        DeviceKind::Software
    } else {
        DeviceKind::Hardware
    };
    let mut device = Device::new(
        NAME,
        if is_software {
            format!("{name} (software)")
        } else {
            name
        },
        kind,
    );
    device
        .fact("is_fallback_adapter", answer["is_fallback_adapter"].clone())
        .fact("features", answer["features"].clone());
    Ok(device)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fallback_adapter_is_software_and_no_adapter_is_a_reason() {
        let of = |answer| answered(&answer);
        let software = of(
            json!({"vendor": "google", "architecture": "swiftshader", "is_fallback_adapter": true}),
        );
        let software = software.unwrap();
        assert_eq!(
            (software.name.as_str(), software.kind),
            ("google swiftshader (software)", DeviceKind::Software)
        );
        let real =
            of(json!({"vendor": "amd", "architecture": "rdna-3", "is_fallback_adapter": false}))
                .unwrap();
        assert_eq!(
            (real.name.as_str(), real.kind),
            ("amd rdna-3", DeviceKind::Hardware)
        );
        assert!(
            of(json!({"error": "requestAdapter gives null"}))
                .unwrap_err()
                .contains("requestAdapter gives null")
        );
        assert!(
            of(json!({"is_fallback_adapter": false})).is_err(),
            "silence is no evidence"
        );
    }
}
