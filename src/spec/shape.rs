//! Shapes of YAML: reads a tree into structs, reports everything that does not fit, and describes itself as JSON Schema.
//!
//! Not serde's derive: that stops at the first unknown key or wrong type. A struct declared with [`shape!`] has one list
//! of fields, from which come reading, suggestions for unknown keys, and the schema with its documentation.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::error::{Sink, Span};
use super::yaml::{Key, Node, Value};
use crate::base::suggest;

/// What can be read from a node. `key` is the name under which the node stands, and the place for what it lacks.
pub(super) trait Shape: Sized {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self>;

    /// The schema at its place: a reference to a part with a name of its own, or the whole.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// One field of a shape.
#[derive(Debug, Default)]
pub(super) enum Field<T> {
    #[default]
    Absent,
    /// Given, and already reported as wrong, so its users report nothing more.
    Bad,
    Given(At<T>),
}

impl<T: Shape> Field<T> {
    pub(super) fn read(node: &Node, key: &Key, sink: &mut Sink) -> Self {
        // A list or mapping may begin lines below its key, and the key is what a message about it is about.
        let pos = if matches!(node.value, Value::List(_) | Value::Map(_)) {
            key.pos
        } else {
            node.pos
        };
        match T::read(node, key, sink) {
            Some(value) => Self::Given(At {
                value,
                span: sink.span(pos),
            }),
            None => Self::Bad,
        }
    }
}

impl<T> Field<T> {
    pub(super) fn given(&self) -> Option<&At<T>> {
        match self {
            Self::Given(at) => Some(at),
            _ => None,
        }
    }

    pub(super) fn value(&self) -> Option<&T> {
        self.given().map(|at| &at.value)
    }

    pub(super) fn cloned(&self) -> Option<T>
    where
        T: Clone,
    {
        self.value().cloned()
    }

    /// The value, or what holds without one.
    pub(super) fn or(&self, usual: T) -> T
    where
        T: Clone,
    {
        self.cloned().unwrap_or(usual)
    }

    /// Reports a value that is given and not as it must be.
    pub(super) fn must(
        &self,
        sink: &mut Sink,
        is_right: impl Fn(&T) -> bool,
        wrong: impl Fn(&T) -> String,
    ) {
        if let Some(at) = self.given().filter(|at| !is_right(&at.value)) {
            sink.error(at.span, wrong(&at.value));
        }
    }

    /// Given, but not to be used: it was reported.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T> Field<List<T>> {
    /// What could be read of the list; nothing if it is not given.
    pub(super) fn items(&self) -> &[At<T>] {
        self.value().map_or(&[], |list| &list.items)
    }
}

impl<T, N> Field<Rows<T, N>> {
    /// The rows, each with its name; none if they are not given.
    pub(super) fn rows(&self) -> &[(At<N>, Option<At<T>>)] {
        self.value().map_or(&[], |rows| &rows.0)
    }
}

/// A mapping whose keys are the user's names, in their order. A row that is not a mapping keeps its name.
#[derive(Debug)]
pub(super) struct Rows<T, N = String>(pub(super) Vec<(At<N>, Option<At<T>>)>);

/// What a name is kept as.
pub(super) trait Name {
    fn named(text: &str, sink: &mut Sink) -> Self;
}

impl Name for String {
    fn named(text: &str, _: &mut Sink) -> Self {
        text.to_owned()
    }
}

/// A shared name, for names that occur millions of times, but with few different values.
impl Name for Arc<str> {
    fn named(text: &str, sink: &mut Sink) -> Self {
        sink.share(text)
    }
}

impl<T, N> Default for Rows<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A list, with those of its items that could be read.
#[derive(Debug)]
pub(super) struct List<T> {
    pub(super) items: Vec<At<T>>,
    /// Whether that is all of them.
    pub(super) whole: bool,
}

/// Any YAML value, as JSON.
#[derive(Debug)]
pub(super) struct Json(pub(super) serde_json::Value);

/// Reports a node that is none of what it must be.
pub(super) fn wrong<T>(node: &Node, key: &Key, expected: &str, sink: &mut Sink) -> Option<T> {
    let span = sink.span(node.pos);
    let message = format!("`{}` must be {expected}, found {}", key.text, node.kind());
    sink.push(span, message, usual_remedy(node, key, expected));
    None
}

/// What to write instead, for mistakes that are made often.
fn usual_remedy(node: &Node, key: &Key, expected: &str) -> Option<String> {
    let is_plain = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    let is_numeric = ["a number", "a whole number"]
        .iter()
        .any(|kind| expected.starts_with(kind));
    match &node.value {
        Value::Text(text) if expected == "a list" && is_plain(text) => {
            Some(format!("write `{}: [{text}]`", key.text))
        }
        Value::Text(text) if is_numeric && text.parse::<f64>().is_ok() => {
            Some("take the quotes away".to_owned())
        }
        Value::List(items)
            if expected == "a mapping"
                && items.iter().any(|item| matches!(item.value, Value::Map(_))) =>
        {
            Some("write each row as `NAME:`, and not as `- name: NAME`".to_owned())
        }
        _ => None,
    }
}

pub(super) fn entries<'n, 'a>(
    node: &'n Node<'a>,
    key: &Key,
    sink: &mut Sink,
) -> Option<&'n [(Key<'a>, Node<'a>)]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        _ => wrong(node, key, "a mapping", sink),
    }
}

pub(super) fn unknown_key(key: &Key, owner: &Key, fields: &[&str], sink: &mut Sink) {
    let span = sink.span(key.pos);
    let message = format!("unknown key `{}` in `{}`", key.text, owner.text);
    sink.error_hint(
        span,
        message,
        suggest::hint(&key.text, fields.iter().copied()),
    );
}

/// Declares a struct whose fields are all [`Field`]s; `@required` ones are reported when they are missing.
macro_rules! shape {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $field_doc:literal])* $field:ident $(@$required:ident)? : $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name { $($(#[doc = $field_doc])* pub(super) $field: Field<$type>,)* }

        impl $name {
            pub(super) const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            /// The fields that are written, and where they stand unless they were reported as wrong.
            #[allow(dead_code, reason = "not every shape is asked for them")]
            pub(super) fn written(&self) -> Vec<(&'static str, Option<Span>)> {
                let all = [$((stringify!($field), self.$field.is_absent(), self.$field.given().map(|at| at.span))),*];
                all.into_iter().filter(|(_, is_absent, _)| !is_absent).map(|(name, _, span)| (name, span)).collect()
            }
        }

        impl Shape for $name {
            fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
                let mut shape = Self::default();
                for (name, value) in shape::entries(node, key, sink)? {
                    match &*name.text {
                        $(stringify!($field) => shape.$field = Field::read(value, name, sink),)*
                        _ => shape::unknown_key(name, key, Self::FIELDS, sink),
                    }
                }
                $($(
                    let _ = stringify!($required);
                    if shape.$field.is_absent() {
                        let span = sink.span(key.pos);
                        sink.error(span, format!("`{}` lacks `{}`", key.text, stringify!($field)));
                    }
                )?)*
                Some(shape)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = serde_json::Map::new();
                let required: &[&str] = &[$($({ let _ = stringify!($required); stringify!($field) },)?)*];
                $(
                    let schema = <$type as Shape>::schema(generator);
                    properties.insert(stringify!($field).to_owned(), shape::described(schema, concat!($($field_doc, "\n"),*)));
                )*
                let mut schema = schemars::json_schema!({
                    "type": "object",
                    "description": concat!($($doc, "\n"),*).trim(),
                    "properties": properties,
                    "additionalProperties": false,
                });
                if !required.is_empty() {
                    schema.insert("required".to_owned(), required.into());
                }
                schema
            }
        }
    };
}
pub(super) use shape;

/// A field's schema with the field's own documentation.
pub(super) fn described(mut schema: Schema, doc: &str) -> serde_json::Value {
    let lines: Vec<&str> = doc.lines().map(str::trim).collect();
    schema.insert("description".to_owned(), lines.join("\n").trim().into());
    schema.to_value()
}

pub(super) fn word<T: Copy>(
    text: &str,
    what: &str,
    words: &[(&str, T)],
    span: Span,
    sink: &mut Sink,
) -> Option<T> {
    let found = words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value);
    if found.is_none() {
        let hint = suggest::hint(text, words.iter().map(|(word, _)| *word));
        sink.error_hint(span, format!("unknown {what} `{text}`"), hint);
    }
    found
}

/// A leaf: what it is called in messages, its schema, and which nodes it takes.
macro_rules! leaf {
    ($type:ty, $expected:literal, $schema:expr, { $($pattern:pat => $value:expr,)+ }) => {
        impl Shape for $type {
            fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
                let value: Option<Self> = match &node.value {
                    $($pattern => $value,)+
                    _ => None,
                };
                value.or_else(|| $crate::spec::shape::wrong(node, key, $expected, sink))
            }

            fn schema(generator: &mut SchemaGenerator) -> Schema {
                $schema(generator)
            }
        }
    };
}
pub(super) use leaf;

leaf!(bool, "`true` or `false`", SchemaGenerator::subschema_for::<bool>, {
    Value::Bool(value) => Some(*value),
});
leaf!(u32, "a whole number from 0 to 4294967295", SchemaGenerator::subschema_for::<u32>, {
    Value::Int(value) => u32::try_from(*value).ok(),
});
leaf!(i64, "a whole number", SchemaGenerator::subschema_for::<i64>, {
    Value::Int(value) => Some(*value),
});
leaf!(u64, "a whole number from 0", SchemaGenerator::subschema_for::<u64>, {
    Value::Int(value) => u64::try_from(*value).ok(),
    Value::Large(value) => Some(*value),
});
leaf!(f64, "a number", SchemaGenerator::subschema_for::<f64>, {
    Value::Int(value) => Some(*value as f64),
    Value::Large(value) => Some(*value as f64),
    Value::Float(value) => Some(*value),
});

impl Shape for String {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        text(node, key, sink).map(str::to_owned)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

impl Shape for Arc<str> {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        text(node, key, sink).map(|text| sink.share(text))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

fn text<'n>(node: &'n Node, key: &Key, sink: &mut Sink) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) => Some(text),
        Value::Int(_) | Value::Large(_) | Value::Float(_) | Value::Bool(_) => {
            let span = sink.span(node.pos);
            let message = format!("`{}` must be text, found {}", key.text, node.kind());
            sink.error_hint(span, message, "put it in quotes");
            None
        }
        _ => wrong(node, key, "text", sink),
    }
}

impl<T: Shape> Shape for List<T> {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        let Value::List(nodes) = &node.value else {
            return wrong(node, key, "a list", sink);
        };
        let mut items = Vec::with_capacity(nodes.len());
        for item in nodes {
            // Whatever an item lacks is reported where the item begins.
            let key = Key {
                text: Cow::Borrowed(&*key.text),
                pos: item.pos,
            };
            if let Some(value) = T::read(item, &key, sink) {
                items.push(At {
                    value,
                    span: sink.span(item.pos),
                });
            }
        }
        Some(Self {
            whole: items.len() == nodes.len(),
            items,
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": T::schema(generator) })
    }
}

impl<T: Shape, N: Name> Shape for Rows<T, N> {
    fn read(node: &Node, key: &Key, sink: &mut Sink) -> Option<Self> {
        let entries = entries(node, key, sink)?;
        let mut rows = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let read = T::read(value, name, sink);
            let row = read.map(|read| At {
                value: read,
                span: sink.span(value.pos),
            });
            rows.push((
                At {
                    value: N::named(&name.text, sink),
                    span: sink.span(name.pos),
                },
                row,
            ));
        }
        Some(Self(rows))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": T::schema(generator) })
    }
}

impl Shape for Json {
    fn read(node: &Node, _: &Key, _: &mut Sink) -> Option<Self> {
        Some(Self(node.to_json()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}
