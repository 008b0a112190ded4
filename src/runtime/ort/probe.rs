//! `probe`: what the libraries are and which devices their providers offer.

use std::ffi::CStr;

use ::ort::AsPointer;
use ::ort::device::Device;
use serde_json::{Map, Value, json};

use super::host::{Host, QNN};
use super::place::Place;
use super::{Failure, Params};
use crate::runtime::{Job, JobOutput};

pub(super) fn probe(_job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let host = match (&params.ep_library, params.ep.as_deref()) {
        (Some(library), None | Some("qnn")) => {
            let host = Host::load(&params.library)?;
            host.add_plugin(QNN, library)?;
            host
        }
        _ => Place::open(params)?.0,
    };
    let devices: Vec<Value> = host.environment.devices().map(|device| describe(&device)).collect();
    let facts = json!({ "onnxruntime": host.version, "build": ort::info(), "devices": devices });
    Ok(JobOutput::ok(facts, None))
}

fn describe(device: &Device<'_>) -> Value {
    let hardware = device.hardware_device();
    json!({
        "provider": device.ep().unwrap_or_default(),
        "provider_vendor": device.ep_vendor().unwrap_or_default(),
        "kind": format!("{:?}", hardware.ty()),
        "vendor": hardware.vendor().unwrap_or_default(),
        "device_id": hardware.id(),
        "metadata": metadata(device),
    })
}

/// The provider's own key-value pairs, without the paths of this machine.
fn metadata(device: &Device<'_>) -> Map<String, Value> {
    let api = ort::api();
    let (mut keys, mut values, mut count) = (std::ptr::null(), std::ptr::null(), 0);
    // SAFETY: the device outlives the call; its metadata, both arrays and their strings belong to the environment.
    unsafe {
        (api.GetKeyValuePairs)((api.EpDevice_EpMetadata)(device.ptr()), &mut keys, &mut values, &mut count);
        (0..count)
            .map(|i| (CStr::from_ptr(*keys.add(i)), CStr::from_ptr(*values.add(i))))
            .map(|(key, value)| (key.to_string_lossy().into_owned(), json!(value.to_string_lossy())))
            .filter(|(key, _)| !key.ends_with("path"))
            .collect()
    }
}
