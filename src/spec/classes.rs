//! The model classes of the locked transformers and its model types, so that a misspelt class is found, a type can be asked
//! for, and coverage can be counted, without starting Python.

use std::sync::LazyLock;

use crate::base::suggest;

/// `just classes` writes both; a test of the Python worker compares them with the installed transformers.
const DATA: &str = include_str!("data/transformers-classes.txt");
const TYPES: &str = include_str!("data/transformers-types.txt");

/// Classes and their types, in ascending order of the classes' bytes.
static CLASSES: LazyLock<Vec<(&str, Option<&str>)>> = LazyLock::new(|| {
    DATA.lines()
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect()
});

/// The classes of diffusers that `orch_py` knows (`diffusers_models.py`). Of an autoencoder it is the decoder.
const OF_DIFFUSERS: [&str; 4] = [
    "AutoencoderKL",
    "DiTTransformer2DModel",
    "UNet2DConditionModel",
    "UNet2DModel",
];

/// The version that the lists are of.
pub fn version() -> &'static str {
    let words = DATA
        .lines()
        .next()
        .and_then(|header| header.strip_prefix("# Model classes of transformers "));
    words
        .and_then(|words| words.split(',').next())
        .expect("BUG: the list of classes names its version")
}

/// Every type that an auto class knows a class for, in ascending order, and its family. None where the type's own
/// configuration cannot be made, so that nobody knows what it is.
pub fn types() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    TYPES.lines().filter(|line| !line.starts_with('#')).map(row)
}

/// A word, and what stands behind it.
fn row(line: &'static str) -> (&'static str, Option<&'static str>) {
    line.split_once(' ')
        .map_or((line, None), |(word, rest)| (word, Some(rest)))
}

pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some() || OF_DIFFUSERS.contains(&name)
}

/// The package of Python that a class is in.
pub fn library(name: &str) -> &'static str {
    if OF_DIFFUSERS.contains(&name) {
        "diffusers"
    } else {
        "transformers"
    }
}

/// The type that a class is of, e.g. `bert`. None of those that choose by a checkpoint, and of parts that serve several.
pub(super) fn model_type(name: &str) -> Option<&'static str> {
    find(name)?.1
}

fn find(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    CLASSES
        .binary_search_by_key(&name, |(class, _)| class)
        .ok()
        .map(|at| CLASSES[at])
}

/// Whether a class only chooses another by a checkpoint, and so is none for seeded weights.
pub(super) fn chooses(name: &str) -> bool {
    name == "AutoBackbone" || name.starts_with("AutoModel")
}

/// What to write instead of a class that is not known.
pub(super) fn hint(name: &str) -> String {
    let known = CLASSES.iter().map(|(class, _)| *class).chain(OF_DIFFUSERS);
    suggest::hint_or(
        name,
        known,
        "write the class name that transformers exports, e.g. `BertForMaskedLM`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_of_the_locked_version() {
        assert!(CLASSES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(CLASSES.len() > 1000);
        let lock = include_str!("../../python/requirements/torch.in");
        assert!(
            lock.lines()
                .any(|line| line == format!("transformers=={}", version())),
            "run `just classes`"
        );
    }

    #[test]
    fn the_types_are_sorted_and_of_the_same_version() {
        let all: Vec<_> = types().collect();
        assert!(all.is_sorted_by(|a, b| a.0 < b.0) && all.len() > 600);
        assert!(
            all.contains(&("bert", Some("encoder-only")))
                && !all.iter().any(|(name, _)| *name == "bert_text")
        );
        assert!(
            TYPES.starts_with(&format!("# Model types of transformers {}, ", version())),
            "run `just classes`"
        );
    }

    #[test]
    fn classes_are_known_by_their_names() {
        assert!(
            [
                "BertForMaskedLM",
                "AutoModel",
                "Mask2FormerModel",
                "LayoutLMv2Model"
            ]
            .iter()
            .all(|name| is_known(name))
        );
        assert!(
            [
                "BertForMaskLM",
                "BertTokenizer",
                "BertConfig",
                "BertPreTrainedModel",
                "bertmodel",
                ""
            ]
            .iter()
            .all(|name| !is_known(name))
        );
        assert_eq!(
            ["BertForMaskedLM", "ASTModel", "AutoModel", ""].map(model_type),
            [
                Some("bert"),
                Some("audio-spectrogram-transformer"),
                None,
                None
            ]
        );
        assert_eq!(hint("BertForMaskLM"), "did you mean `BertForMaskedLM`?");
        assert!(hint("MyOwnThing").contains("that transformers exports"));
    }
}
