//! Tests of the token streams that the build script makes (`build/tokens.rs`).

use std::path::Path;

use super::tokens::{Modules, module, of_python, of_rust};

fn modules(paths: &[&str]) -> Modules {
    paths.iter().map(|path| module(Path::new(path))).collect()
}

fn rust(text: &str) -> String {
    let known = modules(&["judge/mod.rs", "judge/tensor.rs", "base/fs.rs"]);
    of_rust(text, &["judge".into(), "tensor".into()], &known).unwrap()
}

fn python(text: &str) -> String {
    of_python(text, &modules(&["judge.py", "export/graph.py"])).unwrap()
}

#[test]
fn comments_and_layout_of_rust_are_left_out() {
    let packed = "fn f(a: u8) -> u8 { g(|x| x + 1, match a { 0 => 1, _ => return 2 }) }";
    let spread = "
        //! A header.
        /// A comment of documentation.
        pub(crate) fn f(
            a: u8, // One of a line.
        ) -> u8 {
            g(
                |x| { x + 1 },
                match a {
                    0 => { 1 }
                    _ => { return 2; }
                },
            )
        }
        #[cfg(test)]
        mod tests { fn g() {} }
    ";
    assert_eq!(rust(packed), rust(spread));
}

#[test]
fn each_other_change_of_rust_is_seen() {
    let text = "fn f(a: u8) -> u8 { let b = a + 1; g(b, \"x\") }";
    let changes = [
        "fn f(a: u8) -> u8 { let b = a - 1; g(b, \"x\") }",
        "fn f(a: u8) -> u8 { let b = a + 2; g(b, \"x\") }",
        "fn f(a: u8) -> u8 { let b = a + 1; g(b, \"x \") }",
        "fn f(a: u8) -> u8 { let b = a + 1; g(b, \"x\"); }",
        "fn f(a: i8) -> u8 { let b = a + 1; g(b, \"x\") }",
        "#[inline] fn f(a: u8) -> u8 { let b = a + 1; g(b, \"x\") }",
        "#[cfg(unix)] fn f(a: u8) -> u8 { let b = a + 1; g(b, \"x\") }",
    ];
    for changed in changes {
        assert_ne!(rust(text), rust(changed), "{changed}");
    }
}

#[test]
fn a_block_of_statements_keeps_its_braces() {
    assert_ne!(rust("f(|x| { a(); x })"), rust("f(|x| a(); x)"));
    assert_ne!(
        rust("let f = |x| { if x { 1 } - 1 };"),
        rust("let f = |x| if x { 1 } - 1;")
    );
}

#[test]
fn a_module_of_rust_counts_wherever_it_lies() {
    let before = "use crate::judge::{self, tensor::Tensor}; fn f() { super::tensor::g(); crate::base::fs::copy() }";
    let after = "use crate::deep::judge; use crate::deep::judge::tensor::Tensor;
        fn f() { crate::deep::judge::tensor::g(); super::super::fs::copy() }";
    let moved = modules(&["deep/judge/mod.rs", "deep/judge/tensor.rs", "fs.rs"]);
    let own = ["other".to_owned(), "place".to_owned()];
    assert_eq!(rust(before), of_rust(after, &own, &moved).unwrap());
    assert_ne!(
        rust("use crate::base::fs::copy;"),
        rust("use crate::base::fs::rename;")
    );
    assert_ne!(
        rust("use crate::judge::tensor::copy;"),
        rust("use crate::base::fs::copy;")
    );
    assert_ne!(rust("use std::fs::copy;"), rust("use tokio::fs::copy;"));
}

#[test]
fn comments_and_layout_of_python_are_left_out() {
    let packed = "def f(a):\n    return g(a, [1, 2])\n";
    let spread = "\"\"\"A module.\"\"\"\n\n\ndef f(a):\n    \"\"\"A function.\"\"\"\n    # A comment.\n    return g(\n        \
        a,\n        [\n            1,\n            2,\n        ],\n    )\n";
    assert_eq!(python(packed), python(spread));
    for changed in [
        "def f(a):\n    return g(a, [1, 3])\n",
        "def f(a):\n    if a:\n        return g(a, [1, 2])\n",
        "def f(a):\n    return g(a, ['1', 2])\n",
    ] {
        assert_ne!(python(packed), python(changed), "{changed}");
    }
    assert_ne!(python("f((a,))\n"), python("f((a))\n"));
    assert_ne!(
        python("if a:\n    b()\nc()\n"),
        python("if a:\n    b()\n    c()\n")
    );
}

#[test]
fn a_module_of_python_counts_wherever_it_lies() {
    let before = "from orch_py.judge import bound\nfrom orch_py.export import graph\n";
    let after = "from orch_py.deep.judge import bound\nfrom orch_py import graph\n";
    let moved = modules(&["deep/judge.py", "graph.py"]);
    assert_eq!(python(before), of_python(after, &moved).unwrap());
    assert_ne!(python(before), python(&before.replace("bound", "other")));
    let together = "from orch_py import graph, judge\n\nx = 1\n";
    let apart = "from orch_py.a import judge\nfrom orch_py.b import graph\n\nx = 1\n";
    assert_eq!(
        of_python(together, &modules(&["graph.py", "judge.py"])).unwrap(),
        of_python(apart, &modules(&["a/judge.py", "b/graph.py"])).unwrap(),
        "one statement becomes two when a module moves"
    );
}
