//! The CPU feature that decides whether sums of int8 products are exact.

use serde_json::{Map, Value};

/// Whether it has VNNI, which adds products of int8 in 32 bits; x86 only, others have no such trouble.
pub(super) fn vnni() -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    return Some(is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni"));
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Adds it to the facts of a run on the CPU.
pub(super) fn note(facts: &mut Map<String, Value>) {
    if let Some(vnni) = vnni() {
        facts.insert("vnni".to_owned(), vnni.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn it_is_what_the_kernel_says() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let has = ["avx512_vnni", "avx_vnni"]
            .iter()
            .any(|flag| info.split_whitespace().any(|word| word == *flag));
        assert_eq!(vnni(), cfg!(target_arch = "x86_64").then_some(has));
        let mut facts = Map::new();
        note(&mut facts);
        assert_eq!(facts.contains_key("vnni"), cfg!(target_arch = "x86_64"));
    }
}
