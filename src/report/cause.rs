//! Cases that ended alike for one cause, together: one mistake is one thing to read, however many cases it costs.
//!
//! What ended at the same step, in the same state and with the same words has one cause. Figures, paths and the model's
//! name may differ in the words. Knows neither what the states mean nor how a page shows a group.

use std::cmp::Reverse;

use indexmap::IndexMap;

use super::CaseResult;
use super::format::one_line;
use super::view::{View, case_name};
use crate::record::Outcome;

/// More causes than these are many.
pub(super) const MANY: usize = 8;

/// How the system says that a file is not there.
const MISSING: &str = "No such file or directory";

/// Cases with one cause, in the order of the document.
pub(super) struct Cause<'a> {
    pub(super) status: Outcome,
    pub(super) stage: Option<&'a str>,
    /// The first case's reason in one line.
    pub(super) reason: String,
    /// Whether the others' reasons are the same to the letter.
    pub(super) is_exact: bool,
    /// Positions in the document, each with its case; never empty.
    pub(super) cases: Vec<(usize, &'a CaseResult)>,
}

impl<'a> Cause<'a> {
    pub(super) fn first(&self) -> &'a CaseResult {
        self.cases[0].1
    }

    /// The reproducer of the first case that has one.
    pub(super) fn repro(&self) -> Option<&'a str> {
        self.cases
            .iter()
            .find_map(|(_, case)| case.repro.as_deref())
    }

    /// The reason, and whose it is where the others' differ.
    pub(super) fn message(&self) -> String {
        match self.is_exact {
            true => self.reason.clone(),
            false => format!("for instance {}: {}", case_name(self.first()), self.reason),
        }
    }
}

impl<'a> View<'a> {
    /// The cases that are picked, by cause; causes stand in the order of their first cases. Of many, first those that no
    /// earlier run reported, and then those that cost most cases.
    pub(super) fn causes(&self, pick: impl Fn(&CaseResult) -> bool) -> Vec<Cause<'a>> {
        let mut causes: IndexMap<_, Cause<'a>> = IndexMap::new();
        for (at, case) in self.cases(pick) {
            let note = case.note();
            let words = note.as_deref().or(case.reason.as_deref());
            let words = words.or_else(|| self.backend(case)?.reason.as_deref());
            let reason = one_line(words.unwrap_or("no reason was recorded"));
            let stage = case.stage.as_deref();
            // What a tool says names the cause. That a figure is wrong or a process ended does not: there it is one
            // cause at most for each target, unless the targets have the step in common. What a backend lacks is its own.
            let part = match case.status {
                Outcome::Numerics | Outcome::Crash | Outcome::Timeout | Outcome::Oom
                    if stage != Some("generate") =>
                {
                    [case.target.as_str(), &case.precision]
                }
                Outcome::SkipUnavailable if stage == Some("generate") => [&case.model, ""],
                Outcome::SkipUnavailable => [&case.backend, ""],
                _ => [""; 2],
            };
            // Another file is another thing to mend.
            let words = if reason.contains(MISSING) {
                reason.clone()
            } else {
                alike(&reason, &case.model)
            };
            let key = (case.status, stage, part, words);
            let new = || Cause {
                status: case.status,
                stage,
                reason: reason.clone(),
                is_exact: true,
                cases: Vec::new(),
            };
            let cause = causes.entry(key).or_insert_with(new);
            cause.is_exact &= cause.reason == reason;
            cause.cases.push((at, case));
        }
        let mut causes: Vec<_> = causes.into_values().collect();
        if causes.len() > MANY {
            causes.sort_by_key(|cause| {
                (
                    cause.first().known_since.is_some(),
                    Reverse(cause.cases.len()),
                )
            });
        }
        causes
    }
}

/// A reason without what differs between cases of one cause: the model's name, paths and figures.
pub(crate) fn alike(reason: &str, model: &str) -> String {
    let mut out = String::with_capacity(reason.len());
    let mut rest = reason;
    while let Some(first) = rest.chars().next() {
        let last = out.chars().next_back();
        let (part, used) = match first {
            _ if !last.is_some_and(is_of_name) && starts_with_name(rest, model) => {
                ("<model>", model.len())
            }
            '/' if !last.is_some_and(is_of_name) => ("<path>", path(rest)),
            '0'..='9' => ("#", figure(rest)),
            '-' if !last.is_some_and(is_of_name)
                && rest[1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                ("#", 1 + figure(&rest[1..]))
            }
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        out.push_str(part);
        rest = &rest[used..];
    }
    // Shapes of other ranks, and longer lists of figures.
    while out.contains("#, #") {
        out = out.replace("#, #", "#");
    }
    out
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "._-<>#".contains(c)
}

fn starts_with_name(text: &str, name: &str) -> bool {
    let Some(rest) = text.strip_prefix(name) else {
        return false;
    };
    // The sizes of an instance are as good as its name, and a full stop may follow a name.
    !name.is_empty() && !rest.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))
}

/// How long a path is.
fn path(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "`'\"(),;:".contains(c))
        .unwrap_or(text.len())
}

/// How long a number is: `12`, `2.14e-1`, `0x7f3a`.
fn figure(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        from + bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    if let Some(hex) = text.strip_prefix("0x") {
        return 2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count();
    }
    let mut end = digits(0);
    while bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if bytes.get(end) == Some(&b'e') {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn figures_paths_and_the_model_make_no_other_cause() {
        for (one, other) in [
            (
                "max_abs 2.140e-1 is above 1e-1 at [0, 17, 2]",
                "max_abs 3 is above 0.5 at [-1]",
            ),
            ("`convert:bert:onnx` failed", "`convert:bert:onnx` failed"),
            (
                "cannot open /tmp/a/b.onnx: at 0x7f3a",
                "cannot open /home/x.onnx: at 0x11",
            ),
            ("killed at 4.0 GiB, pid 12", "killed at 12 GiB, pid 99999"),
        ] {
            assert_eq!(alike(one, "bert"), alike(other, "bert"), "{one}");
        }
        assert_eq!(
            alike("`convert:bert:onnx` failed", "bert"),
            alike("`convert:gpt-2:onnx` failed", "gpt-2")
        );
        assert_eq!(alike("of bert@b4.", "bert"), "of <model>@b#.");
        for (one, other) in [
            ("unsupported op Einsum", "unsupported op Slice"),
            ("roberta is not bert", "bert is not bert"),
            ("tensor `logits` is wrong", "tensor `boxes` is wrong"),
            ("it is NaN", "it is 1"),
        ] {
            assert_ne!(alike(one, "bert"), alike(other, "bert"), "{one}");
        }
    }
}
