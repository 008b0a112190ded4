//! Closed sets of words: an enum and how its values are written, and rows of a table that are written by their names.

/// How the variants of an enum are written.
macro_rules! words {
    // With the enum itself: each variant stands behind its word.
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$of:meta])* $word:literal => $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        $vis enum $type { $($(#[$of])* $variant),* }
        $crate::base::words::words!($vis $type { $($word => $variant),* });
    };
    ($vis:vis $type:ident { $($word:literal => $variant:ident),* $(,)? }) => {
        impl $type {
            $vis const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];

            /// All variants, in the order of their words.
            #[allow(dead_code, reason = "not every set is gone through")]
            $vis const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant),*];

            #[allow(dead_code, reason = "not every set looks words up")]
            $vis fn named(word: &str) -> Option<Self> {
                Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
            }

            /// The word as a spec has it.
            #[allow(dead_code, reason = "not every set is written")]
            $vis fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    };
}
pub(crate) use words;

/// Rows of a static table are compared, shown, written and read by their names. The table is a slice of references.
macro_rules! rows {
    ($type:ident as $what:literal in $table:expr) => {
        impl $type {
            pub fn named(name: &str) -> Option<&'static Self> {
                $table.iter().copied().find(|row| row.name == name)
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.name == other.name
            }
        }

        impl Eq for $type {}

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name)
            }
        }

        impl<'de> serde::Deserialize<'de> for &'static $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
                let unknown = || {
                    serde::de::Error::custom(format!(
                        concat!("no ", $what, " is called `{}`"),
                        name
                    ))
                };
                $type::named(&name).ok_or_else(unknown)
            }
        }
    };
}
pub(crate) use rows;
