//! "did you mean `cuda`?": one way of finding the nearest known name.

/// The known name nearest to `given`, if one is near enough to be a likely slip.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (given.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A hint for an unknown name: the nearest one, or the list of what is known.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let names: Vec<_> = known.into_iter().map(|name| format!("`{name}`")).collect();
            if names.is_empty() { "none is declared".to_owned() } else { format!("known: {}", names.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_the_list() {
        assert_eq!(nearest("opnvino", ["cpu", "openvino"]), Some("openvino"));
        assert_eq!(hint("zebra", ["cpu", "cuda"]), "known: `cpu`, `cuda`");
    }
}
