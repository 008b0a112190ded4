//! The options of Qualcomm's QNN provider, and what a session of it really runs on.

use serde_json::{Map, Value};

use super::options::Allowed::{Whole, Words};
use super::options::{SWITCH, Table};
use crate::device::snapdragon::{self, Chip};

/// Options that are offered. Left out on purpose: those that write files besides the model (profiling, dumps, saver), those
/// that weaken checks (`skip_*`), and the backends that cannot prepare a context for the NPU.
const TABLE: Table = Table {
    provider: "QNN",
    always: &[("backend_type", "htp")],
    options: &[
        ("backend_type", Words(&["htp"])),
        ("soc_model", Whole(1, 9999)),
        (
            "htp_performance_mode",
            Words(&[
                "burst",
                "balanced",
                "default",
                "high_performance",
                "high_power_saver",
                "low_balanced",
                "extreme_power_saver",
                "low_power_saver",
                "power_saver",
                "sustained_high_performance",
            ]),
        ),
        (
            "htp_graph_finalization_optimization_mode",
            Words(&["0", "1", "2", "3"]),
        ),
        ("vtcm_mb", Whole(1, 64)),
        (
            "qnn_context_priority",
            Words(&["low", "normal", "normal_high", "high"]),
        ),
        ("enable_htp_fp16_precision", Words(SWITCH)),
        ("enable_htp_fp16_clamp_overflow", Words(SWITCH)),
        ("enable_htp_spill_fill_buffer", Words(SWITCH)),
        ("offload_graph_io_quantization", Words(SWITCH)),
        ("extended_udma", Words(SWITCH)),
        ("rpc_control_latency", Whole(0, 1_000_000)),
    ],
};

/// Checks the declared options and gives them in the provider's form, sorted, with what is always set.
pub fn options(declared: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let checked = TABLE.checked(declared)?;
    if !checked.iter().any(|(name, _)| name == "soc_model") {
        // Without it the graph is prepared for no chip in particular, at another precision or not at all.
        return Err("QNN needs the option `soc_model`: the chip's number, e.g. 60".to_owned());
    }
    Ok(checked)
}

/// The kernel's number of this machine's chip; None where the emulator runs, which takes every chip's contexts.
pub fn soc_here() -> Option<String> {
    let soc_id_of_the_kernel = || std::fs::read_to_string("/sys/devices/soc0/soc_id").ok();
    if cfg!(target_arch = "x86_64") {
        None
    } else {
        soc_id_of_the_kernel()
    }
}

/// Whether a context for the target's `soc_model` is one for this chip, as far as both are known. The vendor's library
/// does not refuse every context of another chip.
pub fn fits(declared: &Map<String, Value>, soc_id: Option<&str>) -> Result<(), String> {
    let requested = match declared.get("soc_model") {
        Some(Value::String(text)) => text.parse().ok(),
        other => other.and_then(Value::as_u64),
    };
    let here = soc_id.and_then(|id| snapdragon::by_id(id.trim().parse().ok()?));
    match (
        requested,
        here.and_then(|chip| Some((chip, u64::from(chip.soc_model?)))),
    ) {
        (Some(requested), Some((chip, model))) if requested != model => {
            let other = snapdragon::by_model(requested)
                .map_or_else(|| "another chip".to_owned(), Chip::name);
            Err(format!(
                "the target's soc_model {requested} is {other}; this is {}: soc_model {model}",
                chip.name()
            ))
        }
        _ => Ok(()),
    }
}

/// What really executes a QNN session on this machine: off a Snapdragon it is the vendor's emulator, and is called so.
pub fn actual_device() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "qnn-htp-emulator"
    } else {
        "qnn-htp"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn given(value: Value) -> Result<Vec<(String, String)>, String> {
        options(value.as_object().unwrap())
    }

    #[test]
    fn the_backend_is_always_set_and_the_order_is_stable() {
        let pairs =
            given(json!({"vtcm_mb": 4, "soc_model": 60, "offload_graph_io_quantization": false}))
                .unwrap();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            pairs,
            [
                "backend_type=htp",
                "offload_graph_io_quantization=0",
                "soc_model=60",
                "vtcm_mb=4"
            ]
        );
    }

    #[test]
    fn slips_are_named_with_what_is_allowed() {
        let error = |value| given(value).unwrap_err();
        assert_eq!(
            error(json!({"soc_modle": 60})),
            "QNN has no option `soc_modle`; did you mean `soc_model`?"
        );
        assert_eq!(
            error(json!({"soc_model": 60, "backend_type": "saver"})),
            "QNN's option `backend_type` is `saver`; allowed: htp"
        );
        assert_eq!(
            error(json!({"soc_model": -1})),
            "QNN's option `soc_model` is `-1`; allowed: a whole number from 1 to 9999"
        );
        assert!(error(json!({"soc_model": "060"})).contains("`060`"));
        assert!(
            error(json!({"soc_model": 60, "htp_performance_mode": "wild"}))
                .contains("allowed: burst, balanced")
        );
    }

    #[test]
    fn the_chip_must_be_named() {
        assert!(
            given(json!({}))
                .unwrap_err()
                .contains("needs the option `soc_model`")
        );
    }

    #[test]
    fn a_context_of_another_chip_is_not_run() {
        let fits = |model: Value, id| fits(json!({"soc_model": model}).as_object().unwrap(), id);
        assert_eq!(
            fits(json!(43), Some("555\n")).unwrap_err(),
            "the target's soc_model 43 is SM8550 (Snapdragon 8 Gen 2); this is X1E80100 (Snapdragon X Elite): soc_model 60"
        );
        assert!(fits(json!("60"), Some("555")).is_ok() && fits(json!(60), Some("555")).is_ok());
        // Unknown on either side, or the emulator: nothing is claimed.
        assert!(
            fits(json!(43), Some("1")).is_ok()
                && fits(json!(43), Some("498")).is_ok()
                && fits(json!(43), None).is_ok()
        );
        assert!(
            fits(json!(9998), Some("555"))
                .unwrap_err()
                .contains("is another chip; this is X1E80100")
        );
    }

    #[test]
    fn the_table_names_each_option_once() {
        let names: BTreeSet<_> = TABLE.options.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), TABLE.options.len());
    }
}
