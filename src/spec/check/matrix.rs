//! The matrix: globs match something, rules match a case, exclusions say why.

use std::sync::Arc;

use indexmap::IndexMap;

use super::toolchains::DEFAULT;
use super::{Row, Section, models};
use crate::base::{glob, suggest};
use crate::spec::error::{Sink, Span};
use crate::spec::raw;
use crate::spec::shape::{At, Field, List, Rows};
use crate::spec::{Expect, ExpectedStatus, Fault, MatrixSpec, Precision, Rule};

/// The rows that rules can match. Wrong rows are among them, so that one mistake is reported once.
pub(super) struct Names<'a> {
    /// The models, each with the family, if it is known.
    models: Vec<(&'a str, Option<&'a str>)>,
    targets: Vec<Column<'a>>,
}

/// A target with one of its toolchains.
struct Column<'a> {
    /// The target's row.
    row: &'a str,
    /// The row's name for the default toolchain, else `ROW@TOOLCHAIN`.
    name: String,
    /// The precisions, if they are known.
    precisions: Option<Vec<Precision>>,
}

impl Column<'_> {
    /// Whether a pattern matches it; one for a row is one for all its toolchains.
    fn meets(&self, pattern: &str) -> bool {
        glob::matches(pattern, &self.name) || glob::matches(pattern, self.row)
    }
}

impl<'a> Names<'a> {
    pub(super) fn of(models: &Section<'a, raw::Model>, targets: &Section<'a, raw::Target>) -> Self {
        let family = |row: &Row<'a, raw::Model>| {
            // A ready file may leave it out.
            let is_usual = row.value.family.is_absent() && row.value.class.is_absent();
            if is_usual {
                Some(models::OTHER)
            } else {
                row.value.family.value().map(String::as_str)
            }
        };
        let precisions = |row: &Row<'a, raw::Target>| match row.value.half.value() {
            Some(half) => Some(half.precisions().to_vec()),
            None => {
                let list = row.value.precisions.value().filter(|list| list.whole)?;
                Some(list.items.iter().map(|at| at.value).collect())
            }
        };
        let described = |row: &Row<'a, raw::Target>| {
            let toolchains: Vec<&str> = row
                .value
                .toolchains
                .items()
                .iter()
                .map(|at| at.value.as_str())
                .collect();
            Some((toolchains, precisions(row)))
        };
        let mut columns = Vec::new();
        for (row, described) in targets.each(described) {
            let (toolchains, precisions) = described.unwrap_or_default();
            columns.push(Column {
                row,
                name: row.to_owned(),
                precisions: precisions.clone(),
            });
            for toolchain in toolchains.iter().filter(|name| **name != DEFAULT) {
                columns.push(Column {
                    row,
                    name: format!("{row}@{toolchain}"),
                    precisions: precisions.clone(),
                });
            }
        }
        Self {
            models: models.each(family),
            targets: columns,
        }
    }

    fn model_names(&self) -> Vec<&'a str> {
        self.models.iter().map(|(name, _)| *name).collect()
    }

    fn target_names(&self) -> Vec<&str> {
        self.targets
            .iter()
            .map(|column| column.name.as_str())
            .collect()
    }

    fn families(&self) -> Vec<&'a str> {
        let mut families: Vec<_> = self
            .models
            .iter()
            .filter_map(|(_, family)| *family)
            .collect();
        families.sort_unstable();
        families.dedup();
        families
    }
}

pub(super) fn matrix(raw: Option<&raw::Matrix>, names: &Names<'_>, sink: &mut Sink) -> MatrixSpec {
    let Some(raw) = raw else {
        return MatrixSpec::default();
    };
    let models = globs(&raw.models, "model", &names.model_names(), sink);
    let targets = globs(&raw.targets, "target", &names.target_names(), sink);
    let mut axes = IndexMap::new();
    for (name, field) in [("batch", &raw.batch), ("seq", &raw.seq)] {
        if let Some(values) = axis(name, field, sink) {
            axes.insert(name.to_owned(), values);
        }
    }
    // Globs that were reported as wrong could have matched anything, so no rule is blamed for what they leave out.
    let product = match (&models, &targets) {
        (Some(models), Some(targets)) => Some((models.as_slice(), targets.as_slice())),
        _ => None,
    };
    let exclude = raw
        .exclude
        .items()
        .iter()
        .filter_map(|at| rule(at, product, names, true, sink))
        .collect();
    let everything = Some((&[][..], &[][..]));
    let include = raw
        .include
        .items()
        .iter()
        .filter_map(|at| rule(at, everything, names, false, sink))
        .collect();
    let expect = raw
        .expect
        .items()
        .iter()
        .filter_map(|at| expect(at, names, sink).map(Arc::new))
        .collect();
    let models = models.unwrap_or_default();
    let targets = targets.unwrap_or_default();
    MatrixSpec {
        models,
        targets,
        axes,
        exclude,
        include,
        expect,
    }
}

/// The orders of targets by family, of families and targets that exist.
pub(super) fn prefer(
    rows: &Rows<List<String>>,
    names: &Names<'_>,
    sink: &mut Sink,
) -> IndexMap<String, Vec<String>> {
    // Orders may be given for kinds of models that the spec does not have yet.
    let mut families = [&names.families()[..], models::FAMILIES].concat();
    families.sort_unstable();
    families.dedup();
    let targets = names.target_names();
    let mut prefer = IndexMap::new();
    for (family, list) in &rows.0 {
        if family.value != "any" && !families.contains(&family.value.as_str()) {
            super::unknown("family", family, &[&families[..], &["any"]].concat(), sink);
        }
        let Some(list) = list else { continue };
        for name in list
            .value
            .items
            .iter()
            .filter(|name| !targets.contains(&name.value.as_str()))
        {
            super::unknown("target", name, &targets, sink);
        }
        prefer.insert(
            family.value.clone(),
            list.value.items.iter().map(|at| at.value.clone()).collect(),
        );
    }
    prefer
}

/// None if one of them was reported.
fn globs(
    field: &Field<List<String>>,
    what: &str,
    names: &[&str],
    sink: &mut Sink,
) -> Option<Vec<String>> {
    super::not_empty(field, &format!("{what}s"), sink);
    let mut sound = !field.is_bad()
        && field
            .value()
            .is_none_or(|list| list.whole && !list.items.is_empty());
    for pattern in field.items() {
        sound &= matches_some(pattern, what, names, sink);
    }
    sound.then(|| super::texts(field))
}

fn matches_some(pattern: &At<String>, what: &str, names: &[&str], sink: &mut Sink) -> bool {
    let found = names.iter().any(|name| glob::matches(&pattern.value, name));
    if !found {
        let hint = suggest::hint(&pattern.value, names.iter().copied());
        sink.error_unknown(
            pattern.span,
            format!("no {what} matches `{}`", pattern.value),
            hint,
        );
    }
    found
}

fn axis(name: &str, field: &Field<List<u64>>, sink: &mut Sink) -> Option<Vec<u64>> {
    super::not_empty(field, name, sink);
    let sizes = &field.value()?.items;
    for size in sizes.iter().filter(|size| size.value == 0) {
        sink.error(size.span, format!("`{name}` must be at least 1"));
    }
    super::repeated(sizes, |size| format!("`{name}` {size}"), sink);
    Some(sizes.iter().map(|size| size.value).collect())
}

/// Globs over models and over targets; an empty list matches all.
type Product<'a> = (&'a [String], &'a [String]);

fn rule(
    at: &At<raw::Rule>,
    product: Option<Product<'_>>,
    names: &Names<'_>,
    exclude: bool,
    sink: &mut Sink,
) -> Option<Rule> {
    let raw = &at.value;
    let what = if exclude { "exclude" } else { "include" };
    if raw.model.is_absent()
        && raw.family.is_absent()
        && raw.target.is_absent()
        && raw.precision.is_absent()
    {
        let hint = "add `model`, `family`, `target` or `precision`";
        sink.error_hint(
            at.span,
            format!("this `{what}` rule matches everything"),
            hint,
        );
        return None;
    }
    if exclude && is_blank(&raw.reason) {
        let hint = "add `reason: \"…\"`: the report shows it instead of a result";
        sink.error_hint(at.span, "an exclusion needs a reason", hint);
    }
    let globs = [&raw.model, &raw.family, &raw.target];
    let (rule, sound) = matching(globs, &raw.precision, at.span, &raw.reason, names, sink);
    if let Some(product) = product
        && sound
        && !meets_a_case(&rule, product, names, exclude)
    {
        let hint = "each part matches something, but no case matches all parts";
        sink.error_unknown(at.span, format!("this `{what}` rule matches no case"), hint);
    }
    Some(rule)
}

/// Only the matrix can say whether it matches a case, because other rules exclude and include cases.
fn expect(at: &At<raw::Expect>, names: &Names<'_>, sink: &mut Sink) -> Option<Expect> {
    let raw = &at.value;
    let fields = [&raw.case, &raw.model, &raw.family, &raw.target];
    if fields.iter().all(|field| field.is_absent()) && raw.precision.is_absent() {
        let hint = "add `case`, `model`, `family`, `target` or `precision`";
        sink.error_hint(at.span, "this `expect` rule matches everything", hint);
        return None;
    }
    if !raw.reason.is_absent() && is_blank(&raw.reason) {
        sink.error_hint(
            at.span,
            "an expectation needs a reason",
            "say why these cases do not pass, or name the issue",
        );
    }
    if let Some(since) = raw
        .since
        .given()
        .filter(|at| at.value.parse::<jiff::civil::Date>().is_err())
    {
        sink.error_hint(
            since.span,
            format!("`{}` is not a date", since.value),
            "write it as `2026-01-31`",
        );
    }
    let url = raw.url.given();
    let is_address = |text: &str| {
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
    };
    if let Some(url) = url.filter(|url| !is_address(&url.value)) {
        sink.error_hint(
            url.span,
            format!("`{}` is not the address of a page", url.value),
            "write it as `https://github.com/microsoft/onnxruntime/issues/24737`",
        );
    }
    let status = raw.status.value().copied();
    if let Some(signature) = raw.signature.given()
        && matches!(status, Some(ExpectedStatus::Oom | ExpectedStatus::Timeout))
    {
        sink.error_hint(
            signature.span,
            "`orch blame` finds no fault of cases that end in this way",
            "leave `signature` out",
        );
    }
    let globs = [&raw.model, &raw.family, &raw.target];
    let (rule, _) = matching(globs, &raw.precision, at.span, &raw.reason, names, sink);
    Some(Expect {
        rule,
        case: raw.case.cloned(),
        status: status?,
        stage: raw.stage.cloned(),
        since: raw.since.cloned(),
        fault: Fault {
            cause: raw.cause.cloned(),
            url: raw.url.cloned(),
            signature: raw.signature.cloned(),
        },
        strict: raw.strict.or(true),
    })
}

/// What rules of every kind match by, and whether nothing about it was reported.
fn matching(
    [model, family, target]: [&Field<String>; 3],
    precision: &Field<Precision>,
    span: Span,
    reason: &Field<String>,
    names: &Names<'_>,
    sink: &mut Sink,
) -> (Rule, bool) {
    let mut sound = !precision.is_bad();
    for (field, what, known) in [
        (model, "model", names.model_names()),
        (family, "family", names.families()),
        (target, "target", names.target_names()),
    ] {
        sound &= match field.given() {
            Some(pattern) => matches_some(pattern, what, &known, sink),
            None => !field.is_bad(),
        };
    }
    let rule = Rule {
        loc: sink.loc(span),
        model: model.cloned(),
        family: family.cloned(),
        target: target.cloned(),
        precision: precision.cloned(),
        reason: reason.cloned().unwrap_or_default(),
    };
    (rule, sound)
}

fn is_blank(reason: &Field<String>) -> bool {
    reason.is_absent()
        || reason
            .value()
            .is_some_and(|reason| reason.trim().is_empty())
}

/// The product is a full one, so a rule matches a case if it matches a model and, separately, a target's precision.
fn meets_a_case(
    rule: &Rule,
    (models, targets): Product<'_>,
    names: &Names<'_>,
    exclude: bool,
) -> bool {
    let model = names.models.iter().any(|(name, family)| {
        glob::any(models, name)
            && rule
                .model
                .as_ref()
                .is_none_or(|pattern| glob::matches(pattern, name))
            && match (&rule.family, family) {
                (Some(pattern), Some(family)) => glob::matches(pattern, family),
                // An unknown family was reported already, and the rule may have meant it.
                _ => true,
            }
    });
    let target = names.targets.iter().any(|column| {
        (targets.is_empty() || targets.iter().any(|pattern| column.meets(pattern)))
            && rule
                .target
                .as_ref()
                .is_none_or(|pattern| column.meets(pattern))
            && match (rule.precision, &column.precisions) {
                // An inclusion may name a precision that the target does not list.
                (Some(precision), Some(precisions)) if exclude => precisions.contains(&precision),
                _ => true,
            }
    });
    model && target
}
