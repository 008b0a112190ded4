//! Files of the project that a program reads and that are not among its declared inputs.
//!
//! Best effort: a finding is true, but the absence of findings proves nothing (docs/specs/steps.md). On
//! Linux the kernel stops the program, and all that it starts, at each `open` for reading and each `execve`, and asks
//! orch; orch looks at the path and always lets the call go on.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little"
))]
#[path = "reads/filter.rs"]
mod filter;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little"
)))]
#[path = "reads/nothing.rs"]
mod filter;
mod project;

use serde_json::{Value, json};

pub(super) use filter::{Filter, Watch};
pub use project::Project;
pub(super) use project::Reads;

/// So many names are kept and shown; beyond them, how many more there are.
const TOLD: usize = 20;
/// Turns it off, for programs that the stops disturb.
const OFF: &str = "ORCH_WATCH_READS";

/// A filter for the next program, or why there is none.
pub(super) fn filter() -> Result<Filter, String> {
    if std::env::var_os(OFF).is_some_and(|value| value == "0") {
        return Err(format!("{OFF} is 0"));
    }
    Filter::new()
}

/// Adds to a step's facts what was seen.
pub(super) fn tell(
    facts: &mut Value,
    watched: &Result<(), String>,
    reads: &Reads<'_>,
    left: &[String],
) {
    facts["reads"] = match watched {
        Ok(()) => json!("watched"),
        Err(why) => json!(format!("not watched: {why}")),
    };
    let found = reads.found();
    if !found.is_empty() {
        facts["undeclared"] = json!(found.iter().take(TOLD).collect::<Vec<_>>());
        facts["undeclared_count"] = json!(found.len());
    }
    if !left.is_empty() {
        facts["left_behind"] = json!(left);
    }
}

/// The warning about a step with these facts.
pub fn warnings(step: &str, facts: &Value) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut warnings = Vec::new();
    let names: Vec<_> = facts["undeclared"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let [name] = names[..] {
        warnings.push(format!(
            "{step} read {name}, which is not among its inputs: a change of it will not rerun the step; hint: declare \
             it under inputs:"
        ));
    } else if !names.is_empty() {
        let count = facts["undeclared_count"]
            .as_u64()
            .unwrap_or(names.len() as u64) as usize;
        let shown = names[..names.len().min(SHOWN)].join(", ");
        let more = if count > SHOWN {
            format!(" and {} more", count - SHOWN)
        } else {
            String::new()
        };
        warnings.push(format!(
            "{step} read {shown}{more}, which are not among its inputs: a change of them will not rerun the step; \
             hint: declare them under inputs:"
        ));
    }
    let left: Vec<_> = facts["left_behind"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !left.is_empty() {
        warnings.push(format!(
            "{step} left processes running ({}); they were ended with it; hint: start a service that is to go on before \
             orch",
            left.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_few_and_counts_the_rest() {
        assert!(warnings("command:x", &json!({"reads": "watched"})).is_empty());
        let one = warnings(
            "command:x",
            &json!({"undeclared": ["a"], "undeclared_count": 1}),
        );
        assert!(
            one[0].starts_with("command:x read a, which is not among its inputs:"),
            "{one:?}"
        );
        let many = warnings(
            "command:x",
            &json!({"undeclared": ["a", "b", "c", "d"], "undeclared_count": 25}),
        );
        assert!(
            many[0].starts_with("command:x read a, b, c and 22 more, which are not"),
            "{many:?}"
        );
    }
}
