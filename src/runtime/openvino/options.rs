//! Words of OpenVINO: which options a spec may set, how a device is called, what an error message means.

use anyhow::{Result, bail, ensure};
use serde_json::{Map, Value};

use super::api::{Compiled, Failure};
use crate::base::suggest;
use crate::runtime::JobStatus;

pub(super) const PRECISION: &str = "INFERENCE_PRECISION_HINT";
const THREADS: &str = "INFERENCE_NUM_THREADS";
const PERFORMANCE: &str = "performance_hint";

/// An option is the property's name in lower case. Left out on purpose: the precision and the thread count, which have
/// parameters of their own, and CACHE_DIR, which would make a load depend on earlier runs.
const OPTIONS: &[&str] = &[
    "dynamic_quantization_group_size",
    "enable_cpu_pinning",
    "enable_hyper_threading",
    "execution_mode_hint",
    "kv_cache_precision",
    "num_streams",
    PERFORMANCE,
    "scheduling_core_type",
];

/// All properties of one compilation. One inference at a time is measured, so latency is the hint unless the spec differs.
pub(super) fn properties(
    options: &Map<String, Value>,
    precision: &str,
    threads: Option<u32>,
) -> Result<Vec<(String, String)>> {
    let mut properties = vec![(PRECISION.to_owned(), precision.to_owned())];
    if !options.contains_key(PERFORMANCE) {
        properties.push((PERFORMANCE.to_uppercase(), "LATENCY".to_owned()));
    }
    if let Some(threads) = threads {
        ensure!(threads > 0, "`threads` is 0; give a number, or leave it out for OpenVINO's own choice");
        properties.push((THREADS.to_owned(), threads.to_string()));
    }
    for (name, value) in options {
        if !OPTIONS.contains(&name.as_str()) {
            let known: Vec<_> = OPTIONS.iter().map(|name| format!("`{name}`")).collect();
            let hint = suggest::nearest(name, OPTIONS.iter().copied())
                .map(|name| format!("did you mean `{name}`? "))
                .unwrap_or_default();
            bail!("the openvino runtime has no option `{name}`; {hint}known: {}", known.join(", "));
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

/// What is in force in the compiled model, for every property that its device knows.
pub(super) fn read_back(compiled: &Compiled) -> Map<String, Value> {
    let names = OPTIONS.iter().map(|name| name.to_uppercase());
    names
        .chain([PRECISION, THREADS].map(str::to_owned))
        .filter_map(|name| compiled.property(&name).ok().map(|value| (name, Value::from(value))))
        .collect()
}

/// Virtual devices spread or choose by themselves, so that no result could name its device beforehand.
pub(super) fn chooses_devices(device: &str) -> bool {
    let kind = device.split([':', '.']).next().unwrap_or_default();
    ["AUTO", "MULTI", "HETERO", "BATCH"].contains(&kind) || device.contains(':')
}

/// `GPU` is OpenVINO's short name of `GPU.0`; nothing else counts as the same device.
pub(super) fn is_placed(devices: &[String], asked: &str) -> bool {
    matches!(devices, [device] if device == asked || device.strip_suffix(".0") == Some(asked))
}

/// The status that OpenVINO's message names, where it names one.
pub(super) fn status_of(failure: &Failure) -> Option<JobStatus> {
    let message = failure.to_string().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&[
        "bad_alloc",
        "bad allocation",
        "out of memory",
        "out_of_host_memory",
        "out_of_device_memory",
        "failed to allocate",
    ]) {
        return Some(JobStatus::Oom);
    }
    // The plugins' and frontends' sentences about operators; "not supported" alone is also said of properties.
    let operator = says(&["unsupported operation", "unsupported op", "not support the following", "unconverted op"])
        || (says(&["operation", "operator"]) && says(&["not supported", "not implemented"]));
    (operator || failure.is_not_implemented()).then_some(JobStatus::Unsupported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(options: Value, threads: Option<u32>) -> Result<Vec<(String, String)>> {
        properties(options.as_object().unwrap(), "f32", threads)
    }

    #[test]
    fn the_precision_and_the_hint_are_always_set() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let plain = [pair("INFERENCE_PRECISION_HINT", "f32"), pair("PERFORMANCE_HINT", "LATENCY")];
        assert_eq!(of(json!({}), None).unwrap(), plain);
        let own = of(json!({"performance_hint": "THROUGHPUT", "enable_cpu_pinning": false, "num_streams": 2}), Some(4));
        let own = own.unwrap();
        assert!(own.contains(&pair("PERFORMANCE_HINT", "THROUGHPUT")) && !own.contains(&plain[1]));
        assert!(own.contains(&pair("ENABLE_CPU_PINNING", "NO")) && own.contains(&pair("NUM_STREAMS", "2")));
        assert!(own.contains(&pair("INFERENCE_NUM_THREADS", "4")));
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones() {
        let error = of(json!({"num_stream": 1}), None).unwrap_err().to_string();
        assert!(error.contains("no option `num_stream`; did you mean `num_streams`? known: "), "{error}");
        assert!(error.contains("`performance_hint`"), "{error}");
        assert!(of(json!({"inference_precision_hint": "bf16"}), None).is_err());
        assert!(of(json!({"num_streams": [1]}), None).is_err());
        assert!(of(json!({}), Some(0)).is_err());
    }

    #[test]
    fn only_the_asked_device_counts_as_placed() {
        let on =
            |devices: &[&str], asked| is_placed(&devices.iter().map(|d| (*d).to_owned()).collect::<Vec<_>>(), asked);
        assert!(on(&["CPU"], "CPU") && on(&["GPU.0"], "GPU") && on(&["GPU.1"], "GPU.1"));
        assert!(!on(&["GPU.1"], "GPU") && !on(&["CPU"], "GPU") && !on(&["GPU.0", "CPU"], "GPU") && !on(&[], "CPU"));
        assert!(chooses_devices("AUTO:GPU,CPU") && chooses_devices("AUTO") && chooses_devices("HETERO:GPU"));
        assert!(!chooses_devices("GPU.1") && !chooses_devices("CPU"));
    }
}
