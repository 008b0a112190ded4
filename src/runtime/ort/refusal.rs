//! Why a provider did not take a whole model: the nodes that it left, with its own reasons.
//!
//! Examined only after a strict session failed. The same model is loaded once more with fallback allowed and the provider's
//! log at its loudest, because the strict error itself names no node.

use std::collections::BTreeMap;

use ::ort::logging::LogLevel;
use ::ort::session::builder::SessionBuilder;

use super::host::{Message, listening, plain};
use super::placement::{Node, Placement};
use crate::runtime::JobStatus;
use crate::runtime::refusal::Refusal;

/// Operators named in one reason; more would not be read.
const NAMED: usize = 6;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The provider looked at the graph and left nodes; the sentence names them.
    Refused(String),
    /// The provider failed as a whole, in its own words: this says nothing of the model.
    Broken(String),
    /// It took everything this time: the strict error stands as it is.
    Unexplained,
}

/// Loads the model from `bytes` with fallback allowed and reads who took what.
pub(super) fn examine(
    builder: SessionBuilder,
    provider: &str,
    bytes: &[u8],
) -> anyhow::Result<Verdict> {
    let (mut builder, messages) = listening(builder, LogLevel::Verbose)?;
    let session = builder.commit_from_memory(bytes).map_err(plain);
    let messages = messages
        .lock()
        .map(|messages| messages.clone())
        .unwrap_or_default();
    Ok(match session {
        Ok(session) => judge(&Placement::of(&session)?, provider, &messages),
        // Even the CPU's provider reports that it lacks what a node needs that this provider left.
        Err(error) if Refusal::status_of(&error) == JobStatus::Unsupported => {
            Verdict::Refused(format!("{error:#}"))
        }
        Err(error) => Verdict::Broken(format!("{error:#}")),
    })
}

fn judge(placement: &Placement, provider: &str, messages: &[Message]) -> Verdict {
    let left = placement.elsewhere(provider);
    let taken = placement.0.get(provider).map_or(0, Vec::len);
    if left.is_empty() {
        return Verdict::Unexplained;
    }
    // A provider that fails to start takes nothing and gives no reason for any node: the model is not to blame.
    if let (0, Some(failure)) = (taken, messages.iter().find_map(Message::failure)) {
        return Verdict::Broken(failure);
    }
    Verdict::Refused(sentence(
        provider,
        &left,
        taken + left.len(),
        &reasons(messages),
    ))
}

fn sentence(
    provider: &str,
    left: &[&Node],
    total: usize,
    reasons: &BTreeMap<String, String>,
) -> String {
    let mut operators: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in left {
        operators.entry(&node.operator).or_default().push(node);
    }
    // Those with a reason of the provider's own come first: the others may only have been left beside them.
    let mut groups: Vec<_> = operators
        .into_iter()
        .map(|(operator, nodes)| {
            let why = nodes
                .iter()
                .find_map(|node| reasons.get(&node.name).map(|why| (*node, why)));
            (why.is_none(), operator, nodes, why)
        })
        .collect();
    groups.sort_by_key(|(unexplained, operator, ..)| (*unexplained, *operator));
    let mut parts = Vec::new();
    for (_, operator, nodes, why) in groups.iter().take(NAMED) {
        let times = if nodes.len() == 1 {
            String::new()
        } else {
            format!(" ×{}", nodes.len())
        };
        parts.push(match why {
            Some((node, why)) => format!("{operator}{times} (`{}`: {why})", node.name),
            None => format!("{operator}{times} (`{}`)", nodes[0].name),
        });
    }
    if groups.len() > NAMED {
        parts.push(format!("and {} more operators", groups.len() - NAMED));
    }
    format!(
        "{provider} does not take {} of {total} nodes: {}",
        left.len(),
        parts.join(", ")
    )
}

/// The provider's reasons by node name, from log lines such as
/// `Operator type: Einsum Node name: /mod/Einsum Node index: 422` and `REASON : Einsum unsupported equation: bd,bkd->bk`.
fn reasons(messages: &[Message]) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    for message in messages
        .iter()
        .filter(|message| message.text.contains("Validation FAILED"))
    {
        let Some((_, why)) = message.text.split_once("REASON :") else {
            continue;
        };
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in message.text.lines() {
            let name = line
                .split_once("Node name:")
                .and_then(|(_, rest)| rest.split_once("Node index:"));
            if let Some((name, _)) = name {
                reasons.insert(name.trim().to_owned(), why.clone());
            }
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    const QNN: &str = "QNNExecutionProvider";

    fn placement(taken: usize, left: &[(&str, &str)]) -> Placement {
        let node = |name: &str, operator: &str| Node {
            name: name.to_owned(),
            operator: operator.to_owned(),
        };
        let mut placement = Placement::default();
        if taken > 0 {
            placement.0.insert(
                QNN.to_owned(),
                (0..taken).map(|i| node(&format!("n{i}"), "Add")).collect(),
            );
        }
        if !left.is_empty() {
            let left = left
                .iter()
                .map(|(name, operator)| node(name, operator))
                .collect();
            placement.0.insert("CPUExecutionProvider".to_owned(), left);
        }
        placement
    }

    fn message(level: LogLevel, text: &str) -> Message {
        Message {
            level,
            place: "qnn_execution_provider.cc:1 Somewhere".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_refusal_names_the_operator_the_node_and_the_vendor_s_reason() {
        let log = message(
            LogLevel::Verbose,
            "Validation FAILED for 1 nodes in OrtNodeUnit (Einsum) :\n\tOperator type: Einsum Node name: /mod/Einsum \
             Node index: 422\n\tREASON : Einsum unsupported equation: bd,bkd->bk\n",
        );
        let left = [
            ("/a/Shape", "Shape"),
            ("/mod/Einsum", "Einsum"),
            ("/b/Shape", "Shape"),
        ];
        assert_eq!(
            judge(&placement(7, &left), QNN, &[log]),
            Verdict::Refused(
                "QNNExecutionProvider does not take 3 of 10 nodes: Einsum (`/mod/Einsum`: Einsum unsupported equation: \
                 bd,bkd->bk), Shape ×2 (`/a/Shape`)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_provider_that_does_not_start_blames_no_model() {
        let log = message(
            LogLevel::Error,
            "QNN SetupBackend failed Failed to create device.",
        );
        let verdict = judge(
            &placement(0, &[("a", "Add")]),
            QNN,
            std::slice::from_ref(&log),
        );
        assert_eq!(
            verdict,
            Verdict::Broken("QNN SetupBackend failed Failed to create device.".to_owned())
        );
        // Having taken some nodes, it did start: its errors are about the others.
        assert!(matches!(
            judge(&placement(1, &[("a", "Add")]), QNN, &[log]),
            Verdict::Refused(_)
        ));
    }

    #[test]
    fn the_provider_s_list_of_refused_nodes_is_no_failure_of_its_own() {
        let log = message(
            LogLevel::Error,
            "Unsupported nodes in QNN EP: { name: c, type: Cosh }, ",
        );
        assert!(matches!(
            judge(&placement(0, &[("c", "Cosh")]), QNN, &[log]),
            Verdict::Refused(_)
        ));
    }

    #[test]
    fn a_model_that_was_taken_whole_is_not_explained_away() {
        assert_eq!(judge(&placement(3, &[]), QNN, &[]), Verdict::Unexplained);
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let names: Vec<String> = (0..9).map(|i| format!("Op{i}")).collect();
        let left: Vec<(&str, &str)> = names
            .iter()
            .map(|name| (name.as_str(), name.as_str()))
            .collect();
        let Verdict::Refused(reason) = judge(&placement(1, &left), QNN, &[]) else {
            panic!("not refused")
        };
        assert!(
            reason.ends_with("Op5 (`Op5`), and 3 more operators"),
            "{reason}"
        );
    }
}
