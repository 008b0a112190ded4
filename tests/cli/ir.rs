//! An OpenVINO IR as small as tests need it.

/// `sum` = a + w, `product` = a · b, `still` = (b - b) + w, in this order; `b` comes before `a`. All of 1 × 2; w = (1, 2).
pub(super) fn xml() -> String {
    let port = |id: u8, names: &str| {
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(" names=\"{names}\"")
        };
        format!("<port id=\"{id}\" precision=\"FP32\"{names}><dim>1</dim><dim>2</dim></port>")
    };
    let source = |id: u8, name: &str, kind: &str, data: &str| {
        let names = if kind == "Const" { "" } else { name };
        format!(
            "<layer id=\"{id}\" name=\"{name}\" type=\"{kind}\" version=\"opset1\"><data element_type=\"f32\" \
             shape=\"1, 2\"{data}/><output>{}</output></layer>",
            port(0, names)
        )
    };
    let of_two = |id: u8, name: &str, kind: &str| {
        format!(
            "<layer id=\"{id}\" name=\"{name}\" type=\"{kind}\" version=\"opset1\"><data auto_broadcast=\"numpy\"/><input>{}{}\
             </input><output>{}</output></layer>",
            port(0, ""),
            port(1, ""),
            port(2, if name == "none" { "" } else { name })
        )
    };
    let result = |id: u8| {
        format!(
            "<layer id=\"{id}\" name=\"r{id}\" type=\"Result\" version=\"opset1\"><input>{}</input></layer>",
            port(0, "")
        )
    };
    let layers = [
        source(0, "b", "Parameter", ""),
        source(1, "a", "Parameter", ""),
        source(2, "w", "Const", " offset=\"0\" size=\"8\""),
        of_two(3, "sum", "Add"),
        of_two(4, "product", "Multiply"),
        of_two(5, "none", "Subtract"),
        of_two(6, "still", "Add"),
        result(7),
        result(8),
        result(9),
    ];
    let edges = [
        (1, 3, 0),
        (2, 3, 1),
        (1, 4, 0),
        (0, 4, 1),
        (0, 5, 0),
        (0, 5, 1),
        (5, 6, 0),
        (2, 6, 1),
        (3, 7, 0),
        (4, 8, 0),
        (6, 9, 0),
    ];
    let edges = edges.map(|(from, to, port)| {
        let out = if from < 3 { 0 } else { 2 };
        format!(
            "<edge from-layer=\"{from}\" from-port=\"{out}\" to-layer=\"{to}\" to-port=\"{port}\"/>"
        )
    });
    format!(
        "<?xml version=\"1.0\"?><net name=\"m\" version=\"11\"><layers>{}</layers><edges>{}</edges></net>",
        layers.concat(),
        edges.concat()
    )
}

pub(super) fn bin() -> Vec<u8> {
    [1f32, 2.]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
