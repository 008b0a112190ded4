//! Where a case is run instead, when its own target does not do it.

use super::{Case, candidates, excluded};
use crate::spec::{Spec, Target};

/// Which targets have others in their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Those whose rows say so.
    #[default]
    AsDeclared,
    /// The others too, each as is usual for its backend.
    Usual,
}

/// Backends that stand in for one, in the order in which they are tried.
fn usual(backend: &str) -> &'static [&'static str] {
    match backend {
        "cuda" | "rocm" | "mps" => &["openvino", "cpu"],
        "webgpu" => &["webnn", "cpu"],
        "webnn" | "openvino" => &["cpu"],
        // The emulator and the hardware of QNN are compared with nothing, so nothing stands in for them unasked.
        _ => &[],
    }
}

impl Case {
    /// The same case on the targets that are tried in its place, in their order: the same model at the same sizes and the
    /// same precision. A target that does not have this case has no part in it.
    pub fn fallbacks(&self, spec: &Spec, fallback: Fallback) -> Vec<Case> {
        let own = &spec.targets[&self.target];
        let model = &spec.models[&self.model];
        let on = |target: &Target| {
            let (_, in_product) =
                candidates(spec, model, target).into_iter().find(|(known, _)| *known == self.precision)?;
            let case = Case::new(spec, model, target, self.precision, self.dims.clone());
            excluded(spec, model, target, &case, in_product).is_none().then_some(case)
        };
        match (&own.fallback, fallback) {
            (Some(names), _) => names.iter().filter_map(|name| on(spec.targets.get(name)?)).collect(),
            (None, Fallback::AsDeclared) => Vec::new(),
            (None, Fallback::Usual) => {
                let on_backend = |backend: &&str| {
                    let mut there = spec.targets.values().filter(|target| target.backend == **backend);
                    there.find_map(|target| if target.name == own.name { None } else { on(target) })
                };
                usual(&own.backend).iter().filter_map(on_backend).collect()
            }
        }
    }
}
