//! `CUDA_VISIBLE_DEVICES` and its kin: which devices of a list a vendor's runtime would show to a process.
//!
//! The rules are those of the vendors' runtimes: entries are indices or UUID prefixes, the order of the entries becomes
//! the order of the devices, and the first entry that names nothing ends the list. A filter can only remove.

use serde_json::json;

use super::{Backend, Device};

/// What a variable that is set and empty means; the runtimes disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// CUDA's driver and ROCr: no device is visible.
    HidesAll,
    /// HIP: as if it were not set.
    Ignored,
}

/// Applies `variable=value` and numbers the devices that are left (`cuda:0`, `cuda:1`, …) as the runtime would.
pub(crate) fn filter(mut backend: Backend, variable: &str, value: &str, empty: Empty) -> Backend {
    if value.is_empty() && empty == Empty::Ignored {
        return backend;
    }
    let all = std::mem::take(&mut backend.devices);
    let mut kept: Vec<usize> = vec![];
    for entry in value.split(',').map(str::trim) {
        match position(&all, entry) {
            Some(index) if !kept.contains(&index) => kept.push(index),
            Some(_) => {}
            None => break,
        }
    }
    let by = format!("{variable}={value}");
    let mut hidden: Vec<_> = backend
        .facts
        .get("hidden")
        .and_then(|h| h.as_array())
        .cloned()
        .unwrap_or_default();
    for (index, device) in all.iter().enumerate() {
        if !kept.contains(&index) {
            hidden.push(json!({"name": device.name, "by": by, "uuid": device.facts.get("uuid")}));
        }
    }
    backend.devices = kept.iter().map(|&index| all[index].clone()).collect();
    for (index, device) in backend.devices.iter_mut().enumerate() {
        device.id = format!("{}:{index}", backend.name);
    }
    if !hidden.is_empty() {
        backend.fact("hidden", hidden);
    }
    let mut honoured = backend
        .facts
        .get("honoured")
        .and_then(|h| h.as_array())
        .cloned()
        .unwrap_or_default();
    honoured.push(by.clone().into());
    backend.fact("honoured", honoured);
    if backend.available && backend.devices.is_empty() && !all.is_empty() {
        let names = if all.len() == 1 {
            all[0].name.clone()
        } else {
            format!("all {} devices", all.len())
        };
        backend.available = false;
        backend.reason = Some(format!("{by} hides {names}"));
        backend.remedy = Some(format!("unset {variable}"));
    }
    backend
}

fn position(devices: &[Device], entry: &str) -> Option<usize> {
    if let Ok(index) = entry.parse::<usize>() {
        return (index < devices.len()).then_some(index);
    }
    // A UUID may be shortened as long as it stays unique; AMD writes it with and without dashes.
    let plain = |text: &str| text.replace('-', "").to_lowercase();
    let wanted = plain(entry);
    if !wanted.starts_with("gpu") || wanted.len() <= 3 {
        return None;
    }
    let mut matching = devices.iter().enumerate().filter(|(_, device)| {
        device
            .facts
            .get("uuid")
            .and_then(|uuid| uuid.as_str())
            .is_some_and(|uuid| plain(uuid).starts_with(&wanted))
    });
    let first = matching.next();
    let more = matching.next();
    first.filter(|_| more.is_none()).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;

    fn three() -> Backend {
        let device = |n: usize| {
            let mut device = Device::new(
                format!("cuda:{n}"),
                format!("GPU {n}"),
                DeviceKind::Hardware,
            );
            device.fact(
                "uuid",
                format!("GPU-a{n}b2c3d4-0000-1111-2222-333344445555"),
            );
            device
        };
        Backend::available("cuda", vec![device(0), device(1), device(2)])
    }

    fn names(value: &str, empty: Empty) -> Vec<String> {
        let backend = filter(three(), "CUDA_VISIBLE_DEVICES", value, empty);
        assert_eq!(
            backend.devices.len() + backend.hidden().len(),
            3,
            "a filter loses and invents nothing"
        );
        backend
            .devices
            .into_iter()
            .map(|d| format!("{} {}", d.id, d.name))
            .collect()
    }

    #[test]
    fn the_list_orders_the_devices_and_its_first_bad_entry_ends_it() {
        assert_eq!(
            names("2,0", Empty::HidesAll),
            ["cuda:0 GPU 2", "cuda:1 GPU 0"]
        );
        assert_eq!(names("1,7,0", Empty::HidesAll), ["cuda:0 GPU 1"]);
        assert_eq!(names("1,1", Empty::HidesAll), ["cuda:0 GPU 1"]);
        assert_eq!(names("GPU-a2", Empty::HidesAll), ["cuda:0 GPU 2"]);
        assert_eq!(
            names("GPU-a", Empty::HidesAll),
            Vec::<String>::new(),
            "an ambiguous prefix names nothing"
        );
        assert_eq!(names("99", Empty::HidesAll), Vec::<String>::new());
    }

    #[test]
    fn hiding_all_names_the_variable_and_an_empty_value_means_what_the_vendor_says() {
        let none = filter(three(), "CUDA_VISIBLE_DEVICES", "-1", Empty::HidesAll);
        assert!(!none.available);
        assert_eq!(
            none.reason.as_deref(),
            Some("CUDA_VISIBLE_DEVICES=-1 hides all 3 devices")
        );
        assert_eq!(none.remedy.as_deref(), Some("unset CUDA_VISIBLE_DEVICES"));
        assert_eq!(names("", Empty::HidesAll).len(), 0);
        assert_eq!(names("", Empty::Ignored).len(), 3);
    }
}
