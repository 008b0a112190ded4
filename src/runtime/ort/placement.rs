//! The provider that took each node of a session's graph, by ONNX Runtime's own record.
//!
//! The record exists because every session here is made with `session.record_ep_graph_assignment_info`; it is read through
//! the C API, for which the crate has no wrapper.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

use ::ort::AsPointer;
use ::ort::session::Session;
use ::ort::sys::{OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtStatusPtr};

use super::host::plain;

/// One node of the graph as it was offered to the providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// `MatMul`; with its domain unless that is ONNX's own: `com.microsoft.Gelu`.
    pub(super) operator: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Placement(pub(super) BTreeMap<String, Vec<Node>>);

impl Placement {
    pub(super) fn of(session: &Session) -> anyhow::Result<Self> {
        let api = ort::api();
        let mut placement = Self::default();
        // SAFETY: the arrays and strings belong to the session, which outlives this block; every pointer is passed to
        // the function of the C API that is documented to take it, and every status is consumed by `check`.
        unsafe {
            let mut graphs = std::ptr::null::<*const OrtEpAssignedSubgraph>();
            let mut count = 0;
            check((api.Session_GetEpGraphAssignmentInfo)(
                session.ptr(),
                &mut graphs,
                &mut count,
            ))?;
            for graph in slice(graphs, count) {
                let provider = text(|out| (api.EpAssignedSubgraph_GetEpName)(*graph, out))?;
                let mut nodes = std::ptr::null::<*const OrtEpAssignedNode>();
                let mut count = 0;
                check((api.EpAssignedSubgraph_GetNodes)(
                    *graph, &mut nodes, &mut count,
                ))?;
                let taken = placement.0.entry(provider).or_default();
                for node in slice(nodes, count) {
                    let name = text(|out| (api.EpAssignedNode_GetName)(*node, out))?;
                    let domain = text(|out| (api.EpAssignedNode_GetDomain)(*node, out))?;
                    let operator = text(|out| (api.EpAssignedNode_GetOperatorType)(*node, out))?;
                    taken.push(Node {
                        name,
                        operator: qualified(&domain, operator),
                    });
                }
            }
        }
        Ok(placement)
    }

    /// Node counts per provider, as records hold them.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.0
            .iter()
            .map(|(provider, nodes)| (provider.clone(), nodes.len() as u64))
            .collect()
    }

    /// The nodes that anyone but `provider` took.
    pub(super) fn elsewhere(&self, provider: &str) -> Vec<&Node> {
        self.0
            .iter()
            .filter(|(name, _)| *name != provider)
            .flat_map(|(_, nodes)| nodes)
            .collect()
    }
}

fn qualified(domain: &str, operator: String) -> String {
    if domain.is_empty() || domain == "ai.onnx" {
        operator
    } else {
        format!("{domain}.{operator}")
    }
}

fn check(status: OrtStatusPtr) -> anyhow::Result<()> {
    // SAFETY: every status here comes straight from the C API and is consumed once.
    unsafe { ort::Error::result_from_status(status) }.map_err(plain)
}

/// # Safety
/// `array` must hold `count` pointers, or `count` be 0.
unsafe fn slice<'a, T>(array: *const *const T, count: usize) -> &'a [*const T] {
    // An empty list may come as a null pointer, which a slice may not be made of.
    if count == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for the array.
        unsafe { std::slice::from_raw_parts(array, count) }
    }
}

fn text(get: impl FnOnce(*mut *const c_char) -> OrtStatusPtr) -> anyhow::Result<String> {
    let mut pointer = std::ptr::null();
    check(get(&mut pointer))?;
    if pointer.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the C API hands out NUL-terminated strings that live as long as the session.
    Ok(unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elsewhere_is_every_provider_that_was_not_requested() {
        let node = |name: &str| Node {
            name: name.to_owned(),
            operator: "Erf".to_owned(),
        };
        let placement = Placement(BTreeMap::from([
            (
                "QNNExecutionProvider".to_owned(),
                vec![node("a"), node("b")],
            ),
            ("CPUExecutionProvider".to_owned(), vec![node("c")]),
        ]));
        assert_eq!(placement.elsewhere("QNNExecutionProvider"), [&node("c")]);
        assert_eq!(placement.counts()["QNNExecutionProvider"], 2);
    }

    #[test]
    fn only_foreign_domains_are_spelled_out() {
        assert_eq!(qualified("", "Erf".to_owned()), "Erf");
        assert_eq!(
            qualified("com.microsoft", "Gelu".to_owned()),
            "com.microsoft.Gelu"
        );
    }
}
