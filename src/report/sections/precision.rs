//! What was computed or judged in another way than the name of a target says.

use indexmap::IndexMap;

use super::Section;
use crate::base::figures::counted;
use crate::record::Outcome;
use crate::report::CaseResult;
use crate::report::format::{kind, one_line};
use crate::report::shape::{Item, Shape};
use crate::report::verdict::asked;
use crate::report::view::{View, case_name};

pub(super) const SECTION: Section =
    Section { id: "precision", title: "Precision and tolerance", hint: "", is_brief: true, make: precision };

fn precision<'a>(view: &View<'a>) -> Shape<'a> {
    let halves = by_target(view, "half", |case| Some(case.half.as_ref()?.told()), true);
    let cast = by_target(view, "cast to fp32", |case| Some(format!("for instance: {}", case.cast_to_fp32()?)), false);
    let reduced =
        by_target(view, "reduced range", |case| Some(format!("for instance: {}", case.reduced_range()?)), false);
    Shape::List([halves, cast, reduced].into_iter().flatten().chain(looser(view)).collect())
}

/// One item for each target; of `each` word, if the words are not those of single cases.
fn by_target<'a>(
    view: &View<'a>,
    label: &'static str,
    told: impl Fn(&CaseResult) -> Option<String>,
    each: bool,
) -> Vec<Item<'a>> {
    let mut found: IndexMap<(&str, String), (usize, String)> = IndexMap::new();
    for case in &view.doc.cases {
        let Some(line) = told(case) else { continue };
        let key = (case.target.as_str(), if each { line.clone() } else { String::new() });
        found.entry(key).or_insert((0, line)).0 += 1;
    }
    let item = |((target, _), (count, line)): (_, (usize, String))| {
        Item::about(label, format!("{target} ({})", counted(count, "case")), one_line(&line))
    };
    found.into_iter().map(item).collect()
}

/// Tolerances that let through what orch's own would not.
fn looser<'a>(view: &View<'a>) -> Option<Item<'a>> {
    let cases = view.cases(CaseResult::is_judged_loosely);
    let (_, first) = cases.first()?;
    let numerics = first.numerics.as_ref()?;
    let (bounds, name, asked) = (numerics.looser.join(", "), case_name(first), asked(numerics));
    let line = format!("looser than orch's own in {bounds}; for instance {name}: {asked}");
    let item = Item::about("loose tolerance", counted(cases.len(), "case"), line);
    Some(Item { kind: kind(Outcome::Indecisive), ..item })
}
