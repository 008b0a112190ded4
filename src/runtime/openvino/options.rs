//! Words of OpenVINO: which options a spec may set, how a device is called, what an error message means.

use anyhow::{Result, bail, ensure};
use serde_json::{Map, Value};

use super::api::Compiled;
use crate::base::suggest;
use crate::openvino::Failure;
use crate::runtime::JobStatus;

pub(super) const PRECISION: &str = "INFERENCE_PRECISION_HINT";
const THREADS: &str = "INFERENCE_NUM_THREADS";
const PERFORMANCE: &str = "performance_hint";
const MODE: &str = "execution_mode_hint";

/// An option is the property's name in lower case. Left out on purpose: the precision and the thread count, which have
/// parameters of their own, and CACHE_DIR, which would make a load depend on earlier runs.
const OPTIONS: &[&str] = &[
    "dynamic_quantization_group_size",
    "enable_cpu_pinning",
    "enable_hyper_threading",
    MODE,
    "kv_cache_precision",
    "num_streams",
    PERFORMANCE,
    "scheduling_core_type",
];

/// What holds unless the spec differs, and is OpenVINO's own default on a CPU: one inference at a time is measured, hence
/// latency. All else is as installed, the mode of execution too. In that mode a CPU quantizes the activations of a model
/// whose weights alone are int8; the target `openvino-exact` forbids it (docs/hardware.md, "What differs from a vendor's
/// defaults").
const DEFAULTS: &[(&str, &str)] = &[(PERFORMANCE, "LATENCY")];

/// What a reference is computed with: no value is rounded beyond its type.
pub(super) fn exact() -> (String, String) {
    (MODE.to_uppercase(), "ACCURACY".to_owned())
}

/// What the job asks for.
pub(super) fn properties(
    options: &Map<String, Value>,
    precision: &str,
    threads: Option<u32>,
) -> Result<Vec<(String, String)>> {
    let mut properties = vec![(PRECISION.to_owned(), precision.to_owned())];
    if let Some(threads) = threads {
        ensure!(
            threads > 0,
            "`threads` is 0; give a number, or leave it out for OpenVINO's own choice"
        );
        properties.push((THREADS.to_owned(), threads.to_string()));
    }
    for (name, value) in options {
        if !OPTIONS.contains(&name.as_str()) {
            let known: Vec<_> = OPTIONS.iter().map(|name| format!("`{name}`")).collect();
            let near = suggest::nearest(name, OPTIONS.iter().copied());
            let hint = near
                .map(|name| format!("did you mean `{name}`? "))
                .unwrap_or_default();
            bail!(
                "the openvino runtime has no option `{name}`; {hint}known: {}",
                known.join(", ")
            );
        }
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => if *yes { "YES" } else { "NO" }.to_owned(),
            other => bail!("option `{name}` is {other}; give a text, a number or true/false"),
        };
        properties.push((name.to_uppercase(), value));
    }
    Ok(properties)
}

/// The defaults for what the job leaves open, as far as the device has such a property (an NPU may not).
pub(super) fn defaults(options: &Map<String, Value>, supported: &str) -> Vec<(String, String)> {
    let open = DEFAULTS
        .iter()
        .filter(|(name, _)| !options.contains_key(*name));
    open.map(|(name, value)| (name.to_uppercase(), (*value).to_owned()))
        .filter(|(name, _)| {
            supported
                .split([' ', ',', ':'])
                .any(|property| property == name)
        })
        .collect()
}

/// What is in force in the compiled model, for every property that its device knows.
pub(super) fn read_back(compiled: &Compiled) -> Map<String, Value> {
    let names = OPTIONS
        .iter()
        .chain(&[PRECISION, THREADS])
        .map(|name| name.to_uppercase());
    names
        .filter_map(|name| {
            compiled
                .property(&name)
                .ok()
                .map(|value| (name, value.into()))
        })
        .collect()
}

/// Virtual devices that spread a model or its requests over several, so that no result has one device.
pub(super) fn spreads(device: &str) -> bool {
    let kind = device.split([':', '.']).next().unwrap_or_default();
    ["MULTI", "HETERO", "BATCH"].contains(&kind) || (device.contains(':') && !is_auto(device))
}

/// `AUTO`, or `AUTO:GPU,CPU`: OpenVINO takes one device of those that it has, and reports which.
pub(super) fn is_auto(device: &str) -> bool {
    device == "AUTO" || device.starts_with("AUTO:")
}

/// Further properties that AUTO gets: left to itself it infers on the CPU until another device has compiled the model, and the
/// first figures would be of the one and the last of the other.
pub(super) const AUTO: &[(&str, &str)] = &[
    ("ENABLE_STARTUP_FALLBACK", "NO"),
    ("ENABLE_RUNTIME_FALLBACK", "NO"),
];

/// Refuses what OpenVINO took without an error and did not do; a property that the device cannot report is let pass.
pub(super) fn check_in_force(
    requested: &[(String, String)],
    found: &Map<String, Value>,
) -> Result<()> {
    for (name, requested) in requested.iter().filter(|(name, _)| name != THREADS) {
        let Some(found) = found.get(name).and_then(Value::as_str) else {
            continue;
        };
        ensure!(
            found.eq_ignore_ascii_case(requested),
            "{name} was asked to be {requested}, and OpenVINO compiled with {found}"
        );
    }
    Ok(())
}

/// `GPU` is OpenVINO's short name of `GPU.0`; nothing else counts as the same device.
pub(super) fn is_placed(devices: &[String], requested: &str) -> bool {
    matches!(devices, [device] if device == requested || device.strip_suffix(".0") == Some(requested))
}

/// The status that OpenVINO's message names, where it names one.
pub(super) fn status_of(failure: &Failure) -> Option<JobStatus> {
    let named = status_in(&failure.to_string());
    named.or_else(|| {
        failure
            .is_not_implemented()
            .then_some(JobStatus::Unsupported)
    })
}

fn status_in(message: &str) -> Option<JobStatus> {
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&[
        "bad_alloc",
        "bad allocation",
        "out of memory",
        "failed to allocate",
    ]) || says(&["out_of_host_memory", "out_of_device_memory"])
    {
        return Some(JobStatus::Oom);
    }
    // The plugins' and frontends' sentences about operators; "not supported" alone also occurs in messages about properties.
    let operator = says(&[
        "unsupported operation",
        "unsupported op",
        "not support the following",
        "unconverted op",
    ]) || (says(&["operation", "operator"])
        && says(&["not supported", "not implemented", "doesn't support"]));
    operator.then_some(JobStatus::Unsupported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(options: Value, threads: Option<u32>) -> Result<Vec<(String, String)>> {
        properties(options.as_object().unwrap(), "f32", threads)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn what_a_plugin_has_not_is_its_refusal() {
        let rank = "Unexpected: CPU plug-in doesn't support ReduceSum operation with dynamic rank. Operation name: y";
        assert_eq!(status_in(rank), Some(JobStatus::Unsupported));
        assert_eq!(status_in("Property NUM_STREAMS is not supported"), None);
        assert_eq!(status_in("std::bad_alloc"), Some(JobStatus::Oom));
    }

    #[test]
    fn the_precision_is_always_set_and_the_rest_as_requested() {
        assert_eq!(
            of(json!({}), None).unwrap(),
            [pair("INFERENCE_PRECISION_HINT", "f32")]
        );
        let own = of(
            json!({"enable_cpu_pinning": false, "num_streams": 2}),
            Some(4),
        )
        .unwrap();
        assert!(
            own.contains(&pair("ENABLE_CPU_PINNING", "NO"))
                && own.contains(&pair("NUM_STREAMS", "2"))
        );
        assert!(own.contains(&pair("INFERENCE_NUM_THREADS", "4")));
    }

    #[test]
    fn defaults_give_way_to_the_spec_and_to_what_the_device_lacks() {
        let both = "FULL_DEVICE_NAME PERFORMANCE_HINT EXECUTION_MODE_HINT";
        let latency = pair("PERFORMANCE_HINT", "LATENCY");
        let of = |options: Value, supported| defaults(options.as_object().unwrap(), supported);
        assert_eq!(of(json!({}), both), std::slice::from_ref(&latency));
        assert_eq!(of(json!({"performance_hint": "THROUGHPUT"}), both), []);
        assert_eq!(
            of(json!({}), "PERFORMANCE_HINT PERFORMANCE_HINT_NUM_REQUESTS"),
            [latency]
        );
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones() {
        let error = of(json!({"num_stream": 1}), None).unwrap_err().to_string();
        assert!(
            error.contains("no option `num_stream`; did you mean `num_streams`? known: "),
            "{error}"
        );
        assert!(error.contains("`performance_hint`"), "{error}");
        assert!(of(json!({"inference_precision_hint": "bf16"}), None).is_err());
        assert!(of(json!({"num_streams": [1]}), None).is_err());
        assert!(of(json!({}), Some(0)).is_err());
    }

    #[test]
    fn what_was_requested_is_in_force_or_an_error() {
        let requested = of(json!({"num_streams": 9}), Some(3)).unwrap();
        let found =
            |streams: &str| json!({"NUM_STREAMS": streams, "INFERENCE_PRECISION_HINT": "f32"});
        check_in_force(&requested, found("9").as_object().unwrap()).unwrap();
        let error = check_in_force(&requested, found("2").as_object().unwrap())
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "NUM_STREAMS was asked to be 9, and OpenVINO compiled with 2"
        );
        let bf16 = json!({"INFERENCE_PRECISION_HINT": "bf16"});
        assert!(check_in_force(&requested, bf16.as_object().unwrap()).is_err());
    }

    #[test]
    fn only_the_requested_device_counts_as_placed() {
        let on = |devices: &[&str], requested| {
            is_placed(
                &devices.iter().map(|d| (*d).to_owned()).collect::<Vec<_>>(),
                requested,
            )
        };
        assert!(on(&["CPU"], "CPU") && on(&["GPU.0"], "GPU") && on(&["GPU.1"], "GPU.1"));
        assert!(
            !on(&["GPU.1"], "GPU")
                && !on(&["CPU"], "GPU")
                && !on(&["GPU.0", "CPU"], "GPU")
                && !on(&[], "CPU")
        );
        assert!(spreads("MULTI:GPU,CPU") && spreads("HETERO:GPU") && spreads("GPU:CPU"));
        assert!(!spreads("GPU.1") && !spreads("CPU") && !spreads("AUTO:GPU,CPU"));
        assert!(
            is_auto("AUTO") && is_auto("AUTO:GPU,CPU") && !is_auto("AUTOMATIC") && !is_auto("CPU")
        );
    }
}
