//! The model classes of the locked transformers, so that a misspelt one is found without starting Python.

use std::sync::LazyLock;

use crate::base::suggest;

/// `just classes` writes it; a test of the Python worker compares it with the installed transformers.
const DATA: &str = include_str!("data/transformers-classes.txt");

/// In ascending order of bytes.
static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| DATA.lines().filter(|line| !line.starts_with('#')).collect());

/// The version that the list is of.
pub(super) fn version() -> &'static str {
    let words = DATA.lines().next().and_then(|header| header.strip_prefix("# Model classes of transformers "));
    words.and_then(|words| words.split(',').next()).expect("BUG: the list of classes names its version")
}

pub(super) fn is_known(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// Whether a class only chooses another by a checkpoint, and so is none for seeded weights.
pub(super) fn chooses(name: &str) -> bool {
    name == "AutoBackbone" || name.starts_with("AutoModel")
}

/// What to write instead of a class that is not known.
pub(super) fn hint(name: &str) -> String {
    match suggest::nearest(name, NAMES.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write the class as transformers exports it, e.g. `BertForMaskedLM`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_of_the_locked_version() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        assert!(NAMES.len() > 1000);
        let lock = include_str!("../../python/requirements/torch.in");
        assert!(lock.lines().any(|line| line == format!("transformers=={}", version())), "run `just classes`");
    }

    #[test]
    fn classes_are_known_by_their_names() {
        assert!(
            ["BertForMaskedLM", "AutoModel", "Mask2FormerModel", "LayoutLMv2Model"].iter().all(|name| is_known(name))
        );
        assert!(
            ["BertForMaskLM", "BertTokenizer", "BertConfig", "BertPreTrainedModel", "bertmodel", ""]
                .iter()
                .all(|name| !is_known(name))
        );
        assert_eq!(hint("BertForMaskLM"), "did you mean `BertForMaskedLM`?");
        assert!(hint("MyOwnThing").contains("as transformers exports it"));
    }
}
