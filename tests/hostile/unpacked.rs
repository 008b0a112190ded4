//! Small files that are large once they are read: what they take is a child's, which `--job-memory` bounds.

use std::io::Write as _;

use zip::write::SimpleFileOptions;

use crate::support::Sandbox;

const MIB: u64 = 1 << 20;

/// An archive of numpy's with one array of so many zeros: about a thousandth of what it holds.
fn npz(floats: u64) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("x.npy", options).unwrap();
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({floats},), }}").into_bytes();
    header.resize(117, b' ');
    header.push(b'\n');
    zip.write_all(b"\x93NUMPY\x01\x00\x76\x00").unwrap();
    zip.write_all(&header).unwrap();
    let zeros = vec![0; MIB as usize];
    for _ in 0..floats * 4 / MIB {
        zip.write_all(&zeros).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// `y = x`, as ONNX writes it.
fn identity() -> Vec<u8> {
    fn field(number: u8, kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | kind];
        if kind == 2 {
            bytes.push(u8::try_from(body.len()).unwrap());
        }
        bytes.extend(body);
        bytes
    }
    let text = |number, text: &str| field(number, 2, text.as_bytes());
    let value = |name: &str| {
        let dim = field(1, 2, &text(2, "n"));
        let shape = field(2, 2, &dim);
        let tensor = field(1, 2, &[field(1, 0, &[1]), shape].concat());
        [text(1, name), field(2, 2, &tensor)].concat()
    };
    let node = [text(1, "x"), text(2, "y"), text(4, "Identity")].concat();
    let graph = [
        field(1, 2, &node),
        text(2, "graph"),
        field(11, 2, &value("x")),
        field(12, 2, &value("y")),
    ]
    .concat();
    let opset = field(2, 0, &[13]);
    [field(1, 0, &[8]), field(7, 2, &graph), field(8, 2, &opset)].concat()
}

#[test]
fn what_a_bomb_unpacks_to_is_bounded_by_the_jobs_memory() {
    let spec = "version: 1
models:
  bomb: {onnx: m.onnx, inputs_from: bomb.npz, family: other, task: regression, pipeline: own}
pipelines: {own: {description: numbers to numbers, tasks: [regression], template: text}}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
";
    let bomb = npz(300 * MIB / 4);
    assert!((bomb.len() as u64) < 2 * MIB, "{}", bomb.len());
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", spec)
        .file("specs/m.onnx", identity())
        .file("specs/bomb.npz", bomb);
    let limit = "200MiB";
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json", "--job-memory", limit])
        .code(1)
        .json();
    let case = &document["cases"][0];
    assert_eq!(case["status"], "OOM", "{case}");
    assert_eq!(case["stage"], "generate", "{case}");
}

/// A recipe's shape is a user's word, too.
#[test]
fn what_a_recipe_makes_is_bounded_by_the_jobs_memory() {
    let spec = "version: 1
models:
  large:
    onnx: m.onnx
    inputs: {x: {dtype: float32, shape: [536870912], value: 0.5}}
    family: other
    task: regression
    pipeline: own
pipelines: {own: {description: numbers to numbers, tasks: [regression], template: text}}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
";
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", spec)
        .file("specs/m.onnx", identity());
    let run = ["run", "specs/all.yaml", "--json", "--job-memory", "300MiB"];
    let document = sandbox.run(run).code(1).json();
    let case = &document["cases"][0];
    assert_eq!(case["status"], "OOM", "{case}");
}
