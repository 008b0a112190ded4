//! The probers on recorded and constructed machines (`tests/fixtures/hosts`).

mod libraries;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;

const HOSTS: &[&str] = &[
    "neither",
    "nvidia",
    "amd",
    "both",
    "mac",
    "snapdragon",
    "intel-npu",
    "malformed",
];

/// What a thorough look finds, less what the environment hides.
fn raw(host: &Host, name: &str) -> Backend {
    let row = BackendRow::named(name).unwrap();
    (row.hide)(host, row.look(host, true).backend)
}

pub(super) fn of<'a>(backends: &'a [Backend], name: &str) -> &'a Backend {
    backends
        .iter()
        .find(|backend| backend.name == name)
        .unwrap()
}

pub(super) fn reason(backend: &Backend) -> &str {
    backend.reason.as_deref().unwrap_or_default()
}

fn no_child(name: &str, _: Value) -> Result<Backend, String> {
    panic!("{name} started a child")
}

#[test]
fn every_backend_has_a_name_of_its_own_and_its_prober_answers_by_it() {
    let names: std::collections::BTreeSet<_> = BACKENDS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), BACKENDS.len());
    for row in BACKENDS {
        assert_eq!(
            row.look(&Host::recorded("neither"), false).backend.name,
            row.name
        );
    }
}

#[test]
fn on_every_host_an_unavailable_backend_says_why_and_an_available_one_has_devices() {
    for name in HOSTS {
        let host = Host::recorded(name);
        let child = |name: &str, params: Value| Ok(BackendRow::named(name).unwrap().query(&params));
        for backends in [inventory_cheap(&host), probe_all(&host, &child)] {
            assert_eq!(backends.len(), BACKENDS.len());
            for backend in backends {
                let which = format!("{name}: {}", backend.name);
                assert_eq!(
                    backend.available,
                    backend.reason.is_none(),
                    "{which}: {:?}",
                    backend.reason
                );
                assert!(
                    !backend.available || !backend.devices.is_empty(),
                    "{which} is available without a device"
                );
                assert!(
                    !reason(&backend).contains("BUG"),
                    "{which}: {}",
                    reason(&backend)
                );
            }
        }
    }
}

#[test]
fn nvidia_does_not_read_as_rocm_nor_amd_as_cuda() {
    let expected = [
        ("neither", false, false),
        ("nvidia", true, false),
        ("amd", false, true),
        ("both", true, true),
    ];
    for (name, cuda, rocm) in expected {
        let host = Host::recorded(name);
        assert_eq!(
            (raw(&host, "cuda").available, raw(&host, "rocm").available),
            (cuda, rocm),
            "{name}"
        );
        assert_eq!(cuda::is_seen(&host), cuda, "{name}");
    }
    let neither = Host::recorded("neither");
    assert_eq!(
        reason(&raw(&neither, "cuda")),
        "no NVIDIA GPU: neither /dev/nvidia* nor /proc/driver/nvidia exists"
    );
    assert_eq!(
        reason(&raw(&neither, "rocm")),
        "no AMD GPU: /sys/class/kfd lists no GPU"
    );
}

#[test]
fn cuda_is_read_from_the_kernel_module_before_any_library() {
    let backend = raw(&Host::recorded("nvidia"), "cuda");
    let ids: Vec<_> = backend
        .devices
        .iter()
        .map(|d| (d.id.as_str(), d.name.as_str()))
        .collect();
    assert_eq!(ids, [("cuda:0", "NVIDIA H200"), ("cuda:1", "NVIDIA H200")]);
    assert_eq!(backend.facts["driver"], "580.159.04");
    assert_eq!(
        (&backend.facts["cudnn"], &backend.facts["toolkit"]),
        (&json!("9.15.1"), &json!("13.0.2"))
    );
}

#[test]
fn rocm_is_read_from_the_kernel_topology() {
    let backend = raw(&Host::recorded("amd"), "rocm");
    let shown: Vec<_> = backend
        .devices
        .iter()
        .map(|d| (d.id.as_str(), d.name.as_str(), d.memory_bytes))
        .collect();
    let name = "AMD Instinct MI300X OAM (gfx942)";
    assert_eq!(
        shown,
        [
            ("rocm:0", name, Some(206_141_652_992)),
            ("rocm:1", name, Some(206_141_652_992))
        ]
    );
    assert_eq!(backend.devices[0].facts["compute_units"], 304);
    let places: Vec<_> = backend
        .devices
        .iter()
        .map(|device| device.facts["pci"].as_str())
        .collect();
    assert_eq!(places, [Some("0000:05:00.0"), Some("0000:26:00.0")]);
    assert_eq!(
        (&backend.facts["driver"], &backend.facts["rocm"]),
        (&json!("amdgpu 6.16.6"), &json!("7.1.1"))
    );
    let both = raw(&Host::recorded("both"), "rocm");
    assert_eq!(
        (both.devices[0].name.as_str(), both.devices.len()),
        ("AMD GPU gfx1100", 1)
    );
    assert_eq!(both.facts["driver"], "amdgpu of Linux 6.14.0");
}

#[test]
fn variables_hide_devices_and_are_named() {
    let cuda = |value| {
        inventory_cheap(&Host::recorded("nvidia").with_env("CUDA_VISIBLE_DEVICES", value)).remove(1)
    };
    let one = cuda("GPU-e5f6");
    assert_eq!(
        one.devices
            .iter()
            .map(|d| d.facts["pci"].as_str())
            .collect::<Vec<_>>(),
        [Some("0000:65:00.0")]
    );
    assert_eq!(one.devices[0].id, "cuda:0");
    assert_eq!(
        one.hidden(),
        [("NVIDIA H200", "CUDA_VISIBLE_DEVICES=GPU-e5f6")]
    );
    for nothing in ["", "-1", "NoDevFiles"] {
        let none = cuda(nothing);
        assert_eq!(
            reason(&none),
            format!("CUDA_VISIBLE_DEVICES={nothing} hides all 2 devices")
        );
        assert_eq!((none.devices.len(), none.hidden().len()), (0, 2));
    }

    let amd = |set: &[(&str, &str)]| {
        let host = set
            .iter()
            .fold(Host::recorded("amd"), |host, (name, value)| {
                host.with_env(name, value)
            });
        let backend = raw(&host, "rocm");
        let nodes: Vec<_> = backend
            .devices
            .iter()
            .map(|d| d.facts["render_node"].as_str().unwrap().to_owned())
            .collect();
        nodes.join(" ")
    };
    let first = "/dev/dri/renderD128";
    let second = "/dev/dri/renderD129";
    assert_eq!(amd(&[("ROCR_VISIBLE_DEVICES", "1")]), second);
    assert_eq!(amd(&[("ROCR_VISIBLE_DEVICES", "")]), "");
    assert_eq!(
        amd(&[("HIP_VISIBLE_DEVICES", "1,0")]),
        format!("{second} {first}")
    );
    assert_eq!(
        amd(&[("HIP_VISIBLE_DEVICES", "")]),
        format!("{first} {second}")
    );
    assert_eq!(
        amd(&[("CUDA_VISIBLE_DEVICES", "0")]),
        first,
        "HIP honours CUDA's variable"
    );
    assert_eq!(
        amd(&[("CUDA_VISIBLE_DEVICES", "0"), ("HIP_VISIBLE_DEVICES", "1")]),
        second,
        "its own comes first"
    );
    assert_eq!(
        amd(&[("ROCR_VISIBLE_DEVICES", "1"), ("HIP_VISIBLE_DEVICES", "0")]),
        second,
        "HIP counts what ROCr left"
    );
    assert_eq!(
        amd(&[("ROCR_VISIBLE_DEVICES", "1"), ("HIP_VISIBLE_DEVICES", "1")]),
        ""
    );
}

#[test]
fn with_both_vendors_cuda_s_variable_reaches_amd_by_hip_s_rules() {
    let host = |value| Host::recorded("both").with_env("CUDA_VISIBLE_DEVICES", value);
    let there = |host: &Host| (raw(host, "cuda").available, raw(host, "rocm").available);
    assert_eq!(there(&host("0")), (true, true));
    assert_eq!(
        there(&host("")),
        (false, true),
        "CUDA hides all, HIP ignores an empty value"
    );
    assert_eq!(
        there(&host("GPU-a1b2")),
        (true, false),
        "no AMD GPU has that UUID"
    );
    assert_eq!(
        there(&host("GPU-a1b2").with_env("HIP_VISIBLE_DEVICES", "0")),
        (true, true)
    );
}

#[test]
fn the_environment_invents_no_device() {
    let mut host = Host::recorded("neither");
    for name in [
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
    ] {
        host = host.with_env(name, "0,1");
    }
    for (name, value) in [
        ("CUDA_HOME", "/usr/local/cuda"),
        ("ROCM_HOME", "/opt/rocm"),
        ("QNN_SDK_ROOT", "/opt/qnn"),
    ] {
        host = host.with_env(name, value);
    }
    host = host
        .with_env("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
        .with_env("PYTORCH_ENABLE_MPS_FALLBACK", "1");
    let names = |host: &Host| -> Vec<String> {
        inventory_cheap(host)
            .into_iter()
            .flat_map(|backend| backend.devices)
            .map(|device| device.id)
            .collect()
    };
    assert_eq!(names(&host), names(&Host::recorded("neither")));
    assert_eq!(
        names(&host),
        [
            "cpu",
            "openvino:CPU",
            "qnn:htp-emulator",
            "webgpu-software",
            "webgpu-browser",
            "webnn:cpu"
        ]
    );
}

#[test]
fn a_host_without_accelerators_starts_no_child() {
    let backends = probe_all(&Host::recorded("neither"), &no_child);
    assert!(
        backends
            .iter()
            .all(|backend| !reason(backend).contains("BUG")),
        "{backends:#?}"
    );
}

#[test]
fn a_broken_driver_library_and_a_dead_child_are_reasons() {
    let host = Host::recorded("nvidia");
    let probed = Mutex::new(vec![]);
    let child = |name: &str, params: Value| {
        probed.lock().unwrap().push(name.to_owned());
        Ok(backends::CUDA.query(&params))
    };
    let backends = probe_all(&host, &child);
    let broken = of(&backends, "cuda");
    assert!(
        reason(broken).starts_with("the driver's library does not load: "),
        "{}",
        reason(broken)
    );
    assert!(
        reason(broken).contains("libnvidia-ml.so.1"),
        "{}",
        reason(broken)
    );
    assert!(broken.remedy.is_some() && broken.devices.is_empty());
    assert_eq!(
        broken.facts["driver"], "580.159.04",
        "what the files hold is kept"
    );
    assert_eq!(
        *probed.lock().unwrap(),
        ["cuda"],
        "no other prober needs a child here"
    );

    // The other libraries that are loaded by hand refuse the same file in the same way.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/native/nvml.c");
    let openvino = probe_here("openvino", &json!({"library": path}));
    assert!(
        reason(&openvino).starts_with("its library does not load: "),
        "{}",
        reason(&openvino)
    );
    let qnn = probe_here("qnn", &json!({"htp": path, "backend": raw(&host, "qnn")}));
    assert!(
        reason(&qnn).starts_with("its HTP library fails: "),
        "{}",
        reason(&qnn)
    );
    assert!(openvino.remedy.is_some() && qnn.remedy.is_some());

    let dead = |_: &str, _: Value| Err("the child died by signal 11".to_owned());
    let backends = probe_all(&host, &dead);
    assert_eq!(
        reason(of(&backends, "cuda")),
        "asking its native library failed: the child died by signal 11"
    );
    assert!(of(&backends, "cuda").devices.is_empty());
}

#[test]
fn missing_parts_of_a_driver_are_distinguished() {
    let copy = |name: &str, without: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/hosts")
            .join(name)
            .join("root");
        for entry in walkdir::WalkDir::new(&from)
            .into_iter()
            .filter_map(Result::ok)
            .filter(|e| e.file_type().is_file())
        {
            let inside = entry.path().strip_prefix(&from).unwrap();
            if without.iter().any(|gone| inside.starts_with(gone)) {
                continue;
            }
            let to = folder.path().join(inside);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(entry.path(), to).unwrap();
        }
        let host = Host::recorded(name).with_root(folder.path().to_owned());
        (folder, host)
    };
    let reason = |name: &str, without: &[&str], backend: &str| {
        let (_folder, host) = copy(name, without);
        reason(&raw(&host, backend)).to_owned()
    };
    assert_eq!(
        reason("nvidia", &["dev", "proc/driver"], "cuda"),
        "an NVIDIA GPU (10de:2335 at 0000:17:00.0) has no driver: neither /dev/nvidia* nor /proc/driver/nvidia exists"
    );
    assert_eq!(
        reason("nvidia", &["dev"], "cuda"),
        "the NVIDIA driver is loaded, but this process has no /dev/nvidia0"
    );
    assert_eq!(
        reason("nvidia", &["usr/lib"], "cuda"),
        "the NVIDIA driver is loaded, but its library libnvidia-ml.so.1 is nowhere"
    );
    // Seen all the same: what is to be installed for it must not be for CPUs.
    for without in [&["dev", "proc/driver"][..], &["dev"], &["usr/lib"]] {
        let (_folder, host) = copy("nvidia", without);
        assert!(cuda::is_seen(&host), "{without:?}");
    }
    let kfd = "the kernel lists AMD GPU gfx1100, but /dev/kfd is not here";
    assert_eq!(reason("both", &["dev/kfd"], "rocm"), kfd);
    assert_eq!(
        reason("snapdragon", &["dev"], "qnn"),
        "X1E80100 (Snapdragon X Elite) is here, but no /dev/fastrpc-cdsp* leads to its processor"
    );
    assert_eq!(
        reason("snapdragon", &["sys/devices/soc0"], "qnn"),
        "not a Snapdragon: /sys/devices/soc0/soc_id does not exist"
    );

    // A container that was given one of two GPUs lists both and has one node.
    let (_folder, host) = copy("nvidia", &["dev/nvidia0"]);
    let one = raw(&host, "cuda");
    assert_eq!(
        (one.devices.len(), one.devices[0].facts["pci"].as_str()),
        (1, Some("0000:65:00.0"))
    );
}

#[test]
fn nonsense_in_sysfs_is_a_reason() {
    let host = Host::recorded("malformed");
    let rocm = raw(&host, "rocm");
    let path = "/sys/class/kfd/kfd/topology/nodes";
    assert_eq!(
        reason(&rocm),
        format!("the kernel's GPU topology is unreadable: {path}/1/properties has no `simd_count`")
    );
    assert_eq!(rocm.facts["malformed"].as_array().map(Vec::len), Some(3));
    let cpu = cpu::read(&host);
    assert_eq!(
        (cpu.model.as_str(), cpu.usable, cpu.memory_bytes),
        ("unknown x86_64 CPU", 1, 0)
    );
    assert_eq!(fingerprint(&host).digest.len(), 64);
}

#[test]
fn the_cpu_is_read_within_the_limits_on_this_process() {
    let info = cpu::read(&Host::recorded("neither"));
    assert_eq!(info.model, "Intel(R) Xeon(R) Processor");
    assert_eq!(
        (info.physical, info.logical, info.usable),
        (Some(2), 4, 2),
        "a quota of 1.5 threads keeps two busy"
    );
    assert_eq!(
        (info.memory_bytes, info.usable_memory()),
        (24_684_084 * 1024, 4 << 30)
    );
    assert_eq!(
        cpu::instructions(&info.features),
        "AVX2 (VNNI), AVX-512 (VNNI, BF16, FP16), AMX (INT8, BF16)"
    );
    let arm = cpu::read(&Host::recorded("snapdragon"));
    assert_eq!(
        (arm.model.as_str(), arm.physical),
        ("Qualcomm Oryon", Some(2))
    );
    assert_eq!(
        cpu::instructions(&arm.features),
        "NEON (dot product, FP16, BF16, INT8 matrix)"
    );
    let mac = cpu::read(&Host::recorded("mac"));
    assert_eq!(
        (mac.model.as_str(), mac.usable, mac.memory_bytes),
        ("Apple M2 Pro", 12, 32 << 30)
    );
    assert_eq!(mac.features, ["neon", "fp16", "dotprod", "bf16", "i8mm"]);
}

#[test]
fn qnn_distinguishes_the_emulator_from_a_chip() {
    let emulator = raw(&Host::recorded("neither"), "qnn");
    assert_eq!(
        (emulator.devices[0].id.as_str(), emulator.devices[0].kind),
        ("qnn:htp-emulator", DeviceKind::Emulator)
    );
    assert_eq!(emulator.devices[0].facts["label"], "qnn-htp-emulator");
    let chip = raw(&Host::recorded("snapdragon"), "qnn");
    assert_eq!(
        (chip.devices[0].id.as_str(), chip.devices[0].kind),
        ("qnn:htp", DeviceKind::Hardware)
    );
    let facts = &chip.devices[0].facts;
    assert_eq!(
        (&facts["htp_arch"], &facts["soc_model"]),
        (&json!("V73"), &json!(60))
    );
    assert!(
        reason(&raw(&Host::recorded("mac"), "qnn"))
            .starts_with("no QNN package exists for macos aarch64")
    );
    let mut old = Host::recorded("neither");
    old.glibc = Some("2.31".to_owned());
    assert_eq!(
        reason(&raw(&old, "qnn")),
        "the QNN package needs glibc 2.35 or newer, and this is 2.31"
    );
}

#[test]
fn openvino_promises_the_cpu_and_hints_at_the_rest() {
    let intel = raw(&Host::recorded("intel-npu"), "openvino");
    assert_eq!(
        intel
            .devices
            .iter()
            .map(|d| d.id.as_str())
            .collect::<Vec<_>>(),
        ["openvino:CPU"]
    );
    assert_eq!(
        intel.facts["gpu"],
        "Intel GPU 8086:7d55 at 0000:00:02.0 with an OpenCL driver"
    );
    assert_eq!(intel.facts["npu"], "Intel NPU at /dev/accel/accel0");
    assert_eq!(intel.facts["library"], "installed on first need");
    assert!(
        !raw(&Host::recorded("nvidia"), "openvino")
            .facts
            .contains_key("gpu")
    );
    let gone = Libraries {
        openvino: Some(PathBuf::from("/nowhere/libopenvino_c.so")),
        ..Libraries::default()
    };
    let gone = raw(&Host::recorded("neither").with_libraries(gone), "openvino");
    assert_eq!(
        reason(&gone),
        "its library is gone: /nowhere/libopenvino_c.so"
    );
}
