//! What OpenVINO's errors say of a model, without where in its sources they say it.
//!
//! Its frontends answer with a block of lines, of which one or two are the reason: `No conversion rule found for operations:
//! Det-17`, or what one operator's converter complains of. The Python package reads the same words (`openvino_words.py`).

/// The reasons in one line; the whole text in one line where none is found.
pub(super) fn without_places(text: &str) -> String {
    let mut found: Vec<String> = Vec::new();
    let mut operator = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let reason = match line.strip_prefix("-- ") {
            Some(rest) if rest.ends_with(" with a message:") => {
                operator = rest.replacen(" with a message:", ": ", 1);
                continue;
            }
            Some(rest) if rest.starts_with("Conversion is failed for: ") => continue,
            Some(rest) => rest.to_owned(),
            None if says_nothing(line) => continue,
            None => std::mem::take(&mut operator) + line,
        };
        if !found.contains(&reason) {
            found.push(reason);
        }
    }
    if found.is_empty() {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        found.join("; ")
    }
}

/// Whether a line says where, or that something failed, and not what.
fn says_nothing(line: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "Exception from ",
        "While validating ",
        "FrontEnd API failed with ",
        "Model wasn't fully converted.",
        "[ONNX Frontend] Conversion failed for ",
        "Shape inference input shapes ",
        "Loading input model",
    ];
    BEGINNINGS
        .iter()
        .any(|beginning| line.starts_with(beginning))
        || (line.starts_with("Check ") && line.contains(" failed at "))
        || line == "Summary:"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of OpenVINO 2026.4.1, as they are.
    #[test]
    fn the_reason_is_reported_and_not_the_place() {
        let report = "Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:\n\
                      FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.";
        let none = "-- No conversion rule found for operations: Det-17\n";
        assert_eq!(
            without_places(&format!("{report}\nSummary:\n{none}")),
            "No conversion rule found for operations: Det-17"
        );
        let grid = "-- GridSample-22 with a message:\n[ONNX Frontend] Conversion failed for GridSample-22\n\
                    Check '(data_rank.is_dynamic())' failed at src/frontends/onnx/op/grid_sample.cpp:27:\n\
                    While validating ONNX node '<Node(GridSample): Y>':\n\
                    GridSample is only supported for 4D input tensors. Got rank: 5\n";
        let split = "-- Split-20 with a message:\n[ONNX Frontend] Conversion failed for Split-20\n\
                     While validating ONNX node '<Node(Split): n>': Check 'false' failed at src/utils/split.cpp:33:\n\
                     FrontEnd API failed with GeneralFailure:\nThe split number is invalid\n";
        assert_eq!(
            without_places(&format!(
                "{report} Failed operations detailed log:\n{grid}\n{split}\nSummary:\n{none}-- Conversion is failed for: \
                 GridSample-22, Split-20\n"
            )),
            "GridSample-22: GridSample is only supported for 4D input tensors. Got rank: 5; \
             Split-20: The split number is invalid; No conversion rule found for operations: Det-17"
        );
        assert_eq!(
            without_places(
                "Exception from src/core/src/partial_shape.cpp:267:\nto_shape was called on a dynamic shape.\n"
            ),
            "to_shape was called on a dynamic shape."
        );
        // Words that are not known are not lost.
        assert_eq!(
            without_places("Check 'x' failed at a.cpp:1:\n"),
            "Check 'x' failed at a.cpp:1:"
        );
        assert_eq!(without_places(""), "");
    }
}
