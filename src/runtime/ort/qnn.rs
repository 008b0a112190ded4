//! The options of Qualcomm's QNN provider, and what a session of it really runs on.

use serde_json::{Map, Value};

use super::options::{SWITCH, Table, whole, words};

/// Options that are offered. Left out on purpose: those that write files besides the model (profiling, dumps, saver), those
/// that weaken checks (`skip_*`), and the backends that cannot prepare a context for the NPU.
const TABLE: Table = Table {
    provider: "QNN",
    always: &[("backend_type", "htp")],
    options: &[
        words("backend_type", &["htp"]),
        whole("soc_model", 1, 9999),
        words(
            "htp_performance_mode",
            &[
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
            ],
        ),
        words("htp_graph_finalization_optimization_mode", &["0", "1", "2", "3"]),
        whole("vtcm_mb", 1, 64),
        words("qnn_context_priority", &["low", "normal", "normal_high", "high"]),
        words("enable_htp_fp16_precision", SWITCH),
        words("enable_htp_fp16_clamp_overflow", SWITCH),
        words("enable_htp_spill_fill_buffer", SWITCH),
        words("offload_graph_io_quantization", SWITCH),
        words("extended_udma", SWITCH),
        whole("rpc_control_latency", 0, 1_000_000),
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

/// What really executes a QNN session on this machine: off a Snapdragon it is the vendor's emulator, and is called so.
pub fn actual_device() -> &'static str {
    if cfg!(target_arch = "x86_64") { "qnn-htp-emulator" } else { "qnn-htp" }
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
        let pairs = given(json!({"vtcm_mb": 4, "soc_model": 60, "offload_graph_io_quantization": false})).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["backend_type=htp", "offload_graph_io_quantization=0", "soc_model=60", "vtcm_mb=4"]);
    }

    #[test]
    fn slips_are_named_with_what_is_allowed() {
        let error = |value| given(value).unwrap_err();
        assert_eq!(error(json!({"soc_modle": 60})), "QNN has no option `soc_modle`; did you mean `soc_model`?");
        assert_eq!(
            error(json!({"soc_model": 60, "backend_type": "saver"})),
            "QNN's option `backend_type` is `saver`; allowed: htp"
        );
        assert_eq!(
            error(json!({"soc_model": -1})),
            "QNN's option `soc_model` is `-1`; allowed: a whole number from 1 to 9999"
        );
        assert!(error(json!({"soc_model": "060"})).contains("`060`"));
        assert!(error(json!({"soc_model": 60, "htp_performance_mode": "wild"})).contains("allowed: burst, balanced"));
    }

    #[test]
    fn the_chip_must_be_named() {
        assert!(given(json!({})).unwrap_err().contains("needs the option `soc_model`"));
    }

    #[test]
    fn the_table_names_each_option_once() {
        let names: BTreeSet<_> = TABLE.options.iter().map(|option| option.name).collect();
        assert_eq!(names.len(), TABLE.options.len());
    }
}
