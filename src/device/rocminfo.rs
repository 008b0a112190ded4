//! What ROCm's own tools say of the GPUs that the kernel lists: `rocminfo`, or else `amd-smi`.
//!
//! They bring no device, they only name and doubt: the kernel lists what is there, and the tools what ROCm can use of it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Backend;
use super::host::{Host, field};

/// Names on the box by UUID, as the tools print it (`GPU-…`).
type Names = BTreeMap<String, String>;

/// Adds the tools' names, and marks a GPU that they do not see.
pub(crate) fn compare(host: &Host, backend: &mut Backend) {
    let Some((tool, names)) = query(host) else {
        return;
    };
    backend.fact("asked", tool);
    let mut unseen = vec![];
    for device in &mut backend.devices {
        let Some(uuid) = device.facts.get("uuid").and_then(Value::as_str) else {
            continue;
        };
        match names
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(uuid))
        {
            Some((_, name)) if !name.is_empty() => {
                let gfx = device
                    .facts
                    .get("gfx")
                    .and_then(Value::as_str)
                    .unwrap_or("?")
                    .to_owned();
                device.name = format!("{name} ({gfx})");
            }
            Some(_) => {}
            None => unseen.push(format!("{} ({uuid})", device.name)),
        }
    }
    if !unseen.is_empty() {
        backend.fact(
            "note",
            format!(
                "{tool} does not see {}: ROCm may not support it",
                unseen.join(", ")
            ),
        );
    }
}

fn query(host: &Host) -> Option<(&'static str, Names)> {
    let printed = |places: &[&str], args: &[&str]| {
        let program = host.which(places)?;
        // Both honour ROCR_VISIBLE_DEVICES, and then see fewer on purpose.
        let is_filtered = host.env("ROCR_VISIBLE_DEVICES").is_some();
        host.tool(&program, args)
            .filter(|output| output.ok && !is_filtered)
            .map(|output| output.stdout)
    };
    if let Some(names) =
        printed(&["rocminfo", "/opt/rocm/bin/rocminfo"], &[]).and_then(|text| agents(&text))
    {
        return Some(("rocminfo", names));
    }
    let text = printed(
        &["amd-smi", "/opt/rocm/bin/amd-smi"],
        &["static", "--asic", "--json"],
    )?;
    Some(("amd-smi", cards(&text)?))
}

/// `rocminfo` prints a block for each agent, CPUs among them; the blocks begin with `Agent 2`.
fn agents(text: &str) -> Option<Names> {
    let owned = |block: &str, name: &str| field(block, name, ':').map(str::to_owned);
    let mut blocks = text.split("\nAgent ");
    blocks.next().filter(|head| head.contains("HSA"))?;
    let gpus = blocks.filter(|block| field(block, "Device Type", ':') == Some("GPU"));
    Some(
        gpus.filter_map(|gpu| Some((owned(gpu, "Uuid")?, owned(gpu, "Marketing Name")?)))
            .collect(),
    )
}

/// `amd-smi static --asic --json` prints a list, in newer releases below `gpu_data`.
fn cards(text: &str) -> Option<Names> {
    let doc: Value = serde_json::from_str(text).ok()?;
    let list = doc["gpu_data"].as_array().or(doc.as_array())?;
    let card = |card: &Value| {
        let asic = &card["asic"];
        let serial = asic["asic_serial"]
            .as_str()?
            .trim_start_matches("0x")
            .to_lowercase();
        Some((
            format!("GPU-{serial:0>16}"),
            asic["market_name"].as_str().unwrap_or_default().to_owned(),
        ))
    };
    Some(list.iter().filter_map(card).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCMINFO: &str = "\
ROCk module version 6.16.6 is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.18
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 9654 96-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 9654 96-Core Processor
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-a5a5f1c2d3e4b5a5
  Marketing Name:          AMD Instinct MI300X
  Vendor Name:             AMD
  Device Type:             GPU
  Compute Unit:            304
";

    #[test]
    fn rocminfo_s_gpus_are_distinguished_from_its_cpus() {
        let names = agents(ROCMINFO).unwrap();
        assert_eq!(
            names,
            Names::from([("GPU-a5a5f1c2d3e4b5a5".into(), "AMD Instinct MI300X".into())])
        );
        assert_eq!(
            agents("ROCk module is NOT loaded, possibly no GPU devices\n"),
            None
        );
    }

    #[test]
    fn amd_smi_is_read_in_both_of_its_forms() {
        let card = r#"{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0xA5A5F1C2D3E4B5A5"}}"#;
        let names = Names::from([("GPU-a5a5f1c2d3e4b5a5".into(), "AMD Instinct MI300X".into())]);
        assert_eq!(cards(&format!("[{card}]")).unwrap(), names);
        assert_eq!(
            cards(&format!(r#"{{"gpu_data": [{card}]}}"#)).unwrap(),
            names
        );
        assert_eq!(cards("ERROR:root:Driver not initialized"), None);
    }

    #[test]
    fn the_tools_name_and_doubt_and_bring_nothing() {
        let host = Host::recorded("amd");
        let mut backend = super::super::backends::ROCM.look(&host, false).backend;
        let uuid = backend.devices[0].facts["uuid"]
            .as_str()
            .unwrap()
            .to_owned();
        let text = ROCMINFO.replace("GPU-a5a5f1c2d3e4b5a5", &uuid);
        // Not in the recorded machine itself: its tree holds no executable.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("rocminfo");
        std::fs::write(
            &program,
            format!("#!/bin/sh\n/bin/cat <<'END'\n{text}END\n"),
        )
        .unwrap();
        std::fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let mut host = Host::real().with_env("PATH", folder.path().to_str().unwrap());
        host = host.without_env("ROCR_VISIBLE_DEVICES");
        compare(&host, &mut backend);
        assert_eq!(backend.devices.len(), 2);
        assert_eq!(backend.devices[0].name, "AMD Instinct MI300X (gfx942)");
        let note = backend.facts["note"].as_str().unwrap();
        assert!(
            note.starts_with("rocminfo does not see AMD Instinct"),
            "{note}"
        );
        assert_eq!(backend.facts["asked"], "rocminfo");
    }
}
