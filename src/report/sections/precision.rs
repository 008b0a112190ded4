//! What was computed or judged in another way than the name of a target says.

use indexmap::IndexMap;

use super::{CaseResult, Item, Outcome, View, case_name, counted, one_line};
use crate::report::format::kind;
use crate::report::verdict::tolerance;

pub(super) fn precision<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let instance = |why: &str| format!("for instance: {why}");
    let mut items = by_target(
        view,
        "half",
        |case| case.half.as_ref().map(|half| half.summary()),
        true,
    );
    items.extend(by_target(
        view,
        "cast to fp32",
        |case| case.cast_to_fp32().map(instance),
        false,
    ));
    items.extend(by_target(
        view,
        "reduced range",
        |case| case.reduced_range().map(instance),
        false,
    ));
    items.extend(by_target(
        view,
        "export helped",
        |case| {
            let names = case.export_stand_ins()?;
            Some(instance(&format!(
                "orch's own functions stood in for torch's: {names}"
            )))
        },
        false,
    ));
    items.extend(by_target(
        view,
        "other export route",
        |case| case.other_export_route().map(|how| instance(&how)),
        false,
    ));
    items.extend(by_target(
        view,
        "quantised",
        |case| case.quantised().map(|how| instance(&how)),
        false,
    ));
    items.extend(looser(view));
    items
}

/// One item for each target; of `each` word, if the words are not those of single cases.
fn by_target<'a>(
    view: &View<'a>,
    label: &'static str,
    line_of: impl Fn(&CaseResult) -> Option<String>,
    each: bool,
) -> Vec<Item<'a>> {
    let mut found: IndexMap<(&str, String), (Vec<usize>, String)> = IndexMap::new();
    for (at, case) in view.doc.cases.iter().enumerate() {
        let Some(line) = line_of(case) else { continue };
        let key = (
            case.target.as_str(),
            if each { line.clone() } else { String::new() },
        );
        found.entry(key).or_insert((Vec::new(), line)).0.push(at);
    }
    let item = |((target, _), (cases, line)): (_, (Vec<usize>, String))| {
        let whose = format!("{target} ({})", counted(cases.len(), "case"));
        Item {
            cases,
            ..Item::about(label, whose, one_line(&line))
        }
    };
    found.into_iter().map(item).collect()
}

/// Tolerances that let through what orch's own would not.
fn looser<'a>(view: &View<'a>) -> Option<Item<'a>> {
    let cases = view.cases(CaseResult::is_judged_loosely);
    let (_, first) = cases.first()?;
    let numerics = first.numerics.as_ref()?;
    let bounds = numerics.looser.join(", ");
    let name = case_name(first);
    let tolerance = tolerance(numerics);
    let line = format!("looser than orch's own in {bounds}; for example {name}: {tolerance}");
    let item = Item::about("loose tolerance", counted(cases.len(), "case"), line);
    let cases = cases.iter().map(|(at, _)| *at).collect();
    Some(Item {
        kind: kind(Outcome::Indecisive),
        cases,
        ..item
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::{fixture, markdown};

    #[test]
    fn remarks_know_their_cases_and_number_none() {
        let mut doc = fixture();
        let before = markdown::render(&doc).matches("<sup>").count();
        for case in &mut doc.cases[..2] {
            case.numerics.as_mut().unwrap().looser = vec!["cosine".to_owned()];
        }
        let items = precision(&View::new(&doc));
        assert_eq!(
            items.iter().map(|item| &*item.cases).collect::<Vec<_>>(),
            [[0, 1]]
        );
        assert_eq!(markdown::render(&doc).matches("<sup>").count(), before);
    }

    #[test]
    fn an_export_by_another_route_than_the_first_is_shown_with_its_reason() {
        let mut doc = fixture();
        let attempts = json!([{"route": "legacy", "error": "no symbolic"}, {"route": "dynamo", "error": null}]);
        let facts = json!({"route": "dynamo", "opset": 18, "attempts": attempts});
        doc.cases[0]
            .facts
            .insert("convert:bert:onnx".to_owned(), facts.into());
        let items = precision(&View::new(&doc));
        let route = items.iter().find(|item| item.label == "other export route");
        assert!(route.is_some_and(|item| {
            item.lines
                .concat()
                .contains("dynamo at opset 18, since legacy failed: no symbolic")
        }),);
        let first = json!({"route": "dynamo", "opset": 18, "attempts": [{"route": "dynamo", "error": null}]});
        doc.cases[0]
            .facts
            .insert("convert:bert:onnx".to_owned(), first.into());
        assert_eq!(doc.cases[0].other_export_route(), None);
    }
}
