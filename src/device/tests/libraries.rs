//! Tests of what the libraries of a machine report, and of the fingerprint made of it.

use super::*;

#[test]
fn the_fingerprint_is_stable_and_notices_what_matters() {
    let digest = |host: &Host| fingerprint(host).digest;
    let host = || Host::recorded("neither");
    assert_eq!(
        digest(&host()),
        digest(&host().with_env("HOSTNAME", "elsewhere"))
    );
    let all: std::collections::BTreeSet<_> = HOSTS
        .iter()
        .map(|name| digest(&Host::recorded(name)))
        .collect();
    assert_eq!(
        all.len(),
        HOSTS.len() - 2,
        "`nvidia`, `amd` and `both` are one machine but for their GPUs"
    );
    let one = fingerprint(&host());
    assert_eq!(
        one.summary,
        "Intel(R) Xeon(R) Processor, 2 threads, 4 GiB, Debian GNU/Linux 12 (bookworm), x86_64"
    );
    assert_eq!((one.cores, one.memory_bytes), (2, 4 << 30));
}

#[test]
fn nvml_lists_every_gpu_and_one_lost_gpu_does_not_hide_the_others() {
    let (_folder, library) = native::built("nvml.c", cuda::NVML, "-DINIT=0");
    let backend = backends::CUDA.query(&json!({"libraries": ["/nowhere.so", library]}));
    assert!(backend.available, "{backend:?}");
    let ids: Vec<_> = backend
        .devices
        .iter()
        .map(|d| (d.id.as_str(), d.name.as_str(), d.memory_bytes))
        .collect();
    assert_eq!(
        ids,
        [
            ("cuda:0", "NVIDIA H200", Some(150_754_820_096)),
            ("cuda:1", "NVIDIA H200", Some(150_754_820_096))
        ]
    );
    assert_eq!(
        backend.devices[1].facts["uuid"],
        "GPU-00000003-0000-1111-2222-333344445555"
    );
    assert_eq!(backend.devices[0].facts["compute_capability"], "9.0");
    assert_eq!(
        backend.devices[0].facts["precisions"],
        json!(["fp32", "fp16", "int8", "bf16"])
    );
    assert_eq!(
        (&backend.facts["driver"], &backend.facts["cuda_driver"]),
        (&json!("580.159.04"), &json!("13.0"))
    );
    assert_eq!(
        backend.facts["broken"],
        json!(["GPU 1: device fell off the bus or has otherwise become inacessible"])
    );
}

#[test]
fn a_driver_of_another_version_is_a_reason_with_its_remedy() {
    let (_folder, library) = native::built("nvml.c", cuda::NVML, "-DINIT=18");
    let backend = backends::CUDA.query(&json!({"libraries": [library]}));
    assert_eq!(
        reason(&backend),
        format!(
            "NVML ({}) refuses: RM detects a driver/library version mismatch",
            library.display()
        )
    );
    assert!(backend.remedy.unwrap().starts_with("reboot"));
}

#[test]
fn a_cheap_look_at_this_machine_is_quick_and_a_backend_survives_json() {
    let host = Host::real();
    let _ = inventory_cheap(&host);
    let best = (0..5).map(|_| {
        let start = std::time::Instant::now();
        let _ = inventory_cheap(&Host::real());
        start.elapsed()
    });
    assert!(
        best.min().unwrap() < std::time::Duration::from_millis(50),
        "a debug build needs a few milliseconds"
    );
    for backend in inventory_cheap(&host) {
        let json = serde_json::to_value(&backend).unwrap();
        let back: Backend = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(back).unwrap(), json);
    }
}

/// Not run by default: needs the libraries of the `openvino` and `qnn` environments.
#[test]
#[ignore = "set ORCH_TEST_OPENVINO and ORCH_TEST_QNN to the libraries' paths"]
fn the_real_libraries_name_their_versions_and_devices() {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let libraries = Libraries {
        openvino: path("ORCH_TEST_OPENVINO"),
        qnn: path("ORCH_TEST_QNN"),
        ..Libraries::default()
    };
    let host = Host::real().with_libraries(libraries);
    let child = |name: &str, params: Value| Ok(probe_here(name, &params));
    let backends = probe_all(&host, &child);
    let openvino = of(&backends, "openvino");
    let qnn = of(&backends, "qnn");
    let found = || format!("{openvino:?}\n{qnn:?}");
    assert!(
        openvino
            .devices
            .iter()
            .any(|device| device.id == "openvino:CPU"),
        "{}",
        found()
    );
    assert!(
        openvino.facts["version"]
            .as_str()
            .is_some_and(|v| v.starts_with("20")),
        "{}",
        found()
    );
    assert!(
        openvino.devices[0].facts["default_precision"].is_string(),
        "{}",
        found()
    );
    assert!(
        qnn.facts["sdk"]
            .as_str()
            .is_some_and(|v| v.starts_with('v')),
        "{}",
        found()
    );
    assert!(
        qnn.facts["backends"]
            .as_array()
            .is_some_and(|list| list.contains(&json!("htp"))),
        "{}",
        found()
    );
}
