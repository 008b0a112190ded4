//! The file that runs all tests of one model, on whatever of their targets is here.
//!
//! It lies beside them and finds them by their names, so it is the same whatever a run selects, and no step makes it.

use serde_json::json;

use crate::step::render::plain;
use crate::template::{self, TemplateError};

/// Its name and its text.
pub fn for_all_platforms(model: &str) -> Result<(String, String), TemplateError> {
    let file = format!("all_{}.py", plain(model));
    // Of the model `a`, and not of `a_b`, whose name has two of them there.
    let pattern = format!(r"test_{}_(?!_)(.+)\.py", plain(model).replace('+', r"\+"));
    let orch = env!("CARGO_PKG_VERSION");
    let text = template::render("all.py.j2", json!({"model": model, "file": file, "pattern": pattern, "orch": orch}))?;
    Ok((file, text))
}
