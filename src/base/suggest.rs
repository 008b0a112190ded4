//! "did you mean `cuda`?": one way of finding the nearest known name.

/// Words that are near a known name and mean something else.
const NO_SLIPS: &[&str] = &["gpu", "npu"];

/// The known name nearest to `given`, if one is near enough to be a likely slip; else one of several parts that begins so:
/// `bert:cpu-fp32` for `bert:cpu`.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if NO_SLIPS.contains(&given) {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let begins = |name: &&str| given.contains(':') && name.starts_with(given);
    let longer = known.iter().copied().find(begins);
    let limit = (given.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
        .or(longer)
}

/// A hint for an unknown name: the nearest one, or other words.
pub fn hint_or<'a>(given: &str, known: impl IntoIterator<Item = &'a str>, other: &str) -> String {
    nearest(given, known).map_or_else(
        || other.to_owned(),
        |name| format!("did you mean `{name}`?"),
    )
}

/// How many known names a hint lists before it only counts them.
const LISTED: usize = 24;

/// A hint for an unknown name: the nearest one, or the list of what is known.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(name) = nearest(given, known.clone()) {
        return format!("did you mean `{name}`?");
    }
    let names: Vec<_> = known.into_iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "none is declared".to_owned(),
        1..=LISTED => format!("known: {}", names.join(", ")),
        count => format!(
            "known: {} and {} more",
            names[..LISTED].join(", "),
            count - LISTED
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_the_list() {
        assert_eq!(nearest("opnvino", ["cpu", "openvino"]), Some("openvino"));
        assert_eq!(hint("zebra", ["cpu", "cuda"]), "known: `cpu`, `cuda`");
        assert_eq!(hint("zebra", []), "none is declared");
        assert_eq!(hint("gpu", ["cpu", "cuda"]), "known: `cpu`, `cuda`");
        let cases = ["bert:cpu-fp32", "vit:cpu-fp32"];
        assert_eq!(nearest("vit:cpu", cases), Some("vit:cpu-fp32"));
        assert_eq!(nearest("vit", cases), None);
        assert!(hint("zebra", ["cpu"; 30]).ends_with("`cpu` and 6 more"));
    }
}
