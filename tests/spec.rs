//! Specs as users write them: the suites of this repository load, and mistakes are told as in `fixtures/spec/`.

use std::path::Path;

use orch::spec::Spec;

#[test]
fn the_suites_of_this_repository_load() {
    let spec = Spec::load(Path::new("specs/all.yaml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(spec.models.contains_key("bert"));
    assert_eq!(spec.targets.len(), 10);
    assert_eq!(spec.files.len(), 4);
}
