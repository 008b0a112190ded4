//! OpenVINO's IR as far as orch reads it itself: what a model takes and gives, by name and in its own order.
//!
//! Running a model is the concern of `openvino.rs`.

use std::path::Path;

use anyhow::Context;
use roxmltree::{Document, Node};

/// The tensors that a model takes and gives. OpenVINO may know one by several names, and an output by none.
#[derive(Debug, PartialEq, Eq)]
pub struct IrFacts {
    pub inputs: Vec<Vec<String>>,
    pub outputs: Vec<Vec<String>>,
    /// Each input and output that no tensor here can hold, as a sentence.
    pub inexpressible: Vec<String>,
}

/// Element types of tensors here, in the words of layers and, in capitals, of their ports. The last two are open.
const ELEMENTS: &str = "f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 boolean fp64 fp32 fp16 bool dynamic unspecified";

pub fn facts(path: &Path) -> anyhow::Result<IrFacts> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read `{}`", path.display()))?;
    let not_ir = || format!("`{}` is not an OpenVINO IR", path.display());
    let document = Document::parse(&text).with_context(not_ir)?;
    let net = document.root_element();
    let layers = child(net, "layers").with_context(not_ir)?;
    let of_kind =
        |kind| children(layers, "layer").filter(move |layer| layer.attribute("type") == Some(kind));
    let edges: Vec<_> = child(net, "edges")
        .into_iter()
        .flat_map(|edges| children(edges, "edge"))
        .collect();

    let mut facts = IrFacts {
        inputs: vec![],
        outputs: vec![],
        inexpressible: vec![],
    };
    for layer in of_kind("Parameter") {
        let mut called = port(layer, "output", None)
            .map(|port| names(port, "names"))
            .unwrap_or_default();
        if called.is_empty() {
            called.extend(layer.attribute("name").map(str::to_owned));
        }
        let element = child(layer, "data").and_then(|data| data.attribute("element_type"));
        facts
            .inexpressible
            .extend(inexpressible("input", &called, element));
        facts.inputs.push(called);
    }
    for layer in of_kind("Result") {
        let mut called = names(layer, "output_names");
        if called.is_empty() {
            called = made_by(layers, &edges, layer)
                .map(|port| names(port, "names"))
                .unwrap_or_default();
        }
        let element = port(layer, "input", None).and_then(|port| port.attribute("precision"));
        facts
            .inexpressible
            .extend(inexpressible("output", &called, element));
        facts.outputs.push(called);
    }
    Ok(facts)
}

fn inexpressible(side: &str, names: &[String], element: Option<&str>) -> Option<String> {
    let element = element?.to_lowercase();
    let name = names.first().map_or("", String::as_str);
    let is_known = ELEMENTS.split(' ').any(|known| known == element);
    (!is_known).then(|| format!("its {side} `{name}` is a tensor of {element}"))
}

/// The port that a layer's only input comes from.
fn made_by<'a, 'i>(
    layers: Node<'a, 'i>,
    edges: &[Node<'a, 'i>],
    layer: Node<'a, 'i>,
) -> Option<Node<'a, 'i>> {
    let edge = edges
        .iter()
        .find(|edge| edge.attribute("to-layer") == layer.attribute("id"))?;
    let from = children(layers, "layer")
        .find(|layer| layer.attribute("id") == edge.attribute("from-layer"))?;
    port(from, "output", edge.attribute("from-port"))
}

/// A layer's port on one side: the one of that number, or the first.
fn port<'a, 'i>(layer: Node<'a, 'i>, side: &'static str, id: Option<&str>) -> Option<Node<'a, 'i>> {
    children(child(layer, side)?, "port").find(|port| id.is_none() || port.attribute("id") == id)
}

fn child<'a, 'i>(node: Node<'a, 'i>, tag: &'static str) -> Option<Node<'a, 'i>> {
    children(node, tag).next()
}

fn children<'a, 'i>(node: Node<'a, 'i>, tag: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(tag))
}

/// Names stand between commas; one within a name has a backslash before it.
fn names(node: Node<'_, '_>, attribute: &str) -> Vec<String> {
    let escaped = node
        .attribute(attribute)
        .unwrap_or_default()
        .replace("\\,", "\0");
    escaped
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('\0', ","))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(layers: &str, edges: &str) -> anyhow::Result<IrFacts> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.xml");
        std::fs::write(
            &path,
            format!("<net><layers>{layers}</layers><edges>{edges}</edges></net>"),
        )
        .unwrap();
        facts(&path)
    }

    fn parameter(id: u8, names: &str, element: &str) -> String {
        format!(
            "<layer id='{id}' name='p{id}' type='Parameter'><data element_type='{element}'/><output><port id='0'{names}/>\
             </output></layer>"
        )
    }

    fn result(id: u8, names: &str, precision: &str) -> String {
        format!(
            "<layer id='{id}' type='Result'{names}><input><port id='0' precision='{precision}'/></input></layer>"
        )
    }

    #[test]
    fn names_are_those_of_ports_in_the_file_s_order() {
        let split = "<layer id='2' type='Split'><output><port id='1' names='low'/><port id='2' names='high'/></output></layer>";
        let layers = [
            parameter(0, " names='b,alias'", "f32"),
            parameter(1, "", "i64"),
            split.into(),
            result(3, "", "FP32"),
            result(4, " output_names='with\\, comma'", "BOOL"),
            result(5, "", "FP32"),
        ];
        let edge = |from, port, to| {
            format!("<edge from-layer='{from}' from-port='{port}' to-layer='{to}' to-port='0'/>")
        };
        let found = of(&layers.concat(), &[edge(2, 2, 3), edge(2, 1, 4)].concat()).unwrap();
        assert_eq!(found.inputs, [vec!["b", "alias"], vec!["p1"]]);
        assert_eq!(found.outputs, [vec!["high"], vec!["with, comma"], vec![]]);
        assert_eq!(found.inexpressible, [""; 0]);
    }

    #[test]
    fn what_no_tensor_holds_is_listed_by_its_name() {
        let layers = [
            parameter(0, " names='words'", "string"),
            result(1, " output_names='y'", "U4"),
        ];
        let inexpressible = of(&layers.concat(), "").unwrap().inexpressible;
        assert_eq!(
            inexpressible,
            [
                "its input `words` is a tensor of string",
                "its output `y` is a tensor of u4"
            ]
        );
    }

    #[test]
    fn another_xml_file_is_no_ir() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.xml");
        for text in ["<html/>", "version https://git-lfs.github.com/spec/v1"] {
            std::fs::write(&path, text).unwrap();
            assert!(
                facts(&path)
                    .unwrap_err()
                    .to_string()
                    .ends_with("m.xml` is not an OpenVINO IR"),
                "{text}"
            );
        }
    }
}
