//! QNN on an Android phone that hangs on this machine by a cable: found through `adb`.
//!
//! A cheap look reads files: the `adb` there is, and whether QNN's SDK holds what a phone needs. Which phones are there
//! and what chips they have is found by a child, because `adb` may start a server and wait for a phone.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::host::{Host, ToolOutput};
use super::snapdragon::{self, Chip};
use super::{Absent, Backend, Device, DeviceKind, Look};
use crate::base::{Digest, ensure};

const NAME: &str = "qnn-android";

/// Names an `adb`; without it the one on PATH is taken.
pub const ADB: &str = "ORCH_ADB";
/// The folder of Qualcomm's SDK, as its own scripts call it.
pub const SDK: &str = "QNN_SDK_ROOT";
/// adb's own choice among several phones.
pub const SERIAL: &str = "ANDROID_SERIAL";

/// The programs and libraries of the SDK: one runs a model on the phone, and through one it reaches the HTP.
pub const RUNNER: &str = "bin/aarch64-android/qnn-net-run";
pub const LIBRARY: &str = "lib/aarch64-android/libQnnHtp.so";
/// Reads the runner's profile on this machine. The vendor has it for x86_64.
pub const VIEWER: &str = "bin/x86_64-linux-clang/qnn-profile-viewer";

/// The questions put to a phone, one answer a line.
pub const PROPERTIES: &str = "getprop ro.soc.manufacturer; getprop ro.soc.model; getprop ro.product.cpu.abi; \
                              getprop ro.product.model; getprop ro.build.version.release";

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let unavailable =
        |reason: String, remedy: String| Backend::unavailable(NAME, reason).with_remedy(remedy);
    if (host.os.as_str(), host.arch.as_str()) != ("linux", "x86_64") {
        let reason =
            "contexts and profiles of phones are made and read by tools for Linux on x86_64 only";
        return Err(Backend::unavailable(NAME, reason).into());
    }
    let remedy = format!("install adb (Android's platform tools), or name it with {ADB}");
    let adb = adb(host).map_err(|reason| unavailable(reason, remedy))?;
    let remedy = format!("unpack Qualcomm's AI Engine Direct SDK and set {SDK} to its folder");
    let sdk = sdk(host).map_err(|reason| unavailable(reason, remedy))?;
    // A promise, as the run's own look will keep or break it; its name must not depend on whether it was probed.
    let device = Device::new(
        "qnn-android:htp",
        "a phone on adb, asked when a run needs it",
        DeviceKind::Hardware,
    );
    let mut backend = Backend::available(NAME, vec![device]);
    backend
        .fact("adb", adb.display().to_string())
        .fact("driver", identity(&sdk))
        .fact("sdk_root", host.shown(&sdk));
    backend.fact(
        "note",
        "tested against a stand-in for adb: orch has never run on a phone",
    );
    // What hangs on the machine is part of the question, so that a kept answer ends when a phone is taken away.
    let usb = host.list("/sys/bus/usb/devices");
    let params = json!({"adb": adb.display().to_string(), "serial": host.env(SERIAL), "usb": usb, "backend": backend});
    Ok(Look {
        backend,
        query: Some(params),
    })
}

pub(super) fn query(params: &Value) -> Result<Backend, Absent> {
    let adb = Path::new(params["adb"].as_str().unwrap_or_default());
    let say = |args: &[&str]| {
        ToolOutput::of(adb, args)
            .filter(|output| output.ok)
            .map(|output| output.stdout)
    };
    let devices = found(&say, params["serial"].as_str()).map_err(|reason| {
        Backend::unavailable(NAME, reason).with_remedy(
            "connect a phone, switch on USB debugging and allow this machine on its screen",
        )
    })?;
    Ok(Backend {
        devices,
        ..Backend::looked(params)
    })
}

/// The phones that can be used, by what `adb` says to these arguments.
fn found(
    say: &dyn Fn(&[&str]) -> Option<String>,
    serial: Option<&str>,
) -> Result<Vec<Device>, String> {
    let list =
        say(&["devices", "-l"]).ok_or("adb does not list its devices, or not within 10 s")?;
    let phones = phones(&list);
    let mut devices = vec![];
    let mut reasons = vec![];
    for phone in phones
        .iter()
        .filter(|phone| serial.is_none_or(|serial| serial == phone.serial))
    {
        let properties = phone.usable().and_then(|()| {
            let answer = say(&["-s", &phone.serial, "shell", PROPERTIES]);
            Ok(Properties::of(&answer.ok_or_else(|| {
                format!("{} answers no shell", phone.serial)
            })?))
        });
        match properties.and_then(|properties| properties.chip().map(|chip| (properties, chip))) {
            Ok((properties, chip)) => {
                let id = format!("qnn-android:{}", phone.serial);
                let mut device = Device::new(
                    id,
                    format!("{}, {}", properties.model, properties.soc),
                    DeviceKind::Hardware,
                );
                device
                    .fact("serial", phone.serial.clone())
                    .fact("soc", properties.soc)
                    .fact("android", properties.release);
                device
                    .fact("htp_arch", chip.map(|chip| chip.htp))
                    .fact("soc_model", chip.and_then(|c| c.soc_model));
                devices.push(device);
            }
            Err(why) => reasons.push(why),
        }
    }
    match (devices.is_empty(), reasons.is_empty(), serial) {
        (false, ..) => Ok(devices),
        (_, false, _) => Err(reasons.join("; ")),
        (.., Some(serial)) => Err(format!("adb lists no phone {serial}, which {SERIAL} names")),
        _ => Err("adb lists no phone".to_owned()),
    }
}

/// The `adb` to use: a file that can be started.
pub fn adb(host: &Host) -> Result<PathBuf, String> {
    let Some(named) = host.env(ADB).filter(|named| !named.is_empty()) else {
        return host
            .which(&["adb"])
            .ok_or_else(|| "adb is not on PATH".to_owned());
    };
    host.which(&[named]).ok_or_else(|| {
        format!("{ADB}={named} is no program; give an absolute path or a name on PATH")
    })
}

/// QNN's SDK, with all that a phone and its profile need.
pub fn sdk(host: &Host) -> Result<PathBuf, String> {
    let named = host.env(SDK).filter(|named| !named.is_empty());
    let named = named.ok_or_else(|| {
        format!("{SDK} is not set: QNN's runner for phones comes with its SDK only")
    })?;
    for file in [RUNNER, LIBRARY, VIEWER] {
        ensure(host.exists(&format!("{named}/{file}")), || {
            format!("{SDK}={named} has no {file}")
        })?;
    }
    Ok(host.at(named))
}

/// The version as the SDK itself has it: `version: 2.39.0.250926` in `sdk.yaml`.
pub fn version(sdk: &Path) -> Option<String> {
    let text = std::fs::read_to_string(sdk.join("sdk.yaml")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("version:"))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}

/// What stands in keys for the SDK, which no lock holds: its version, and the content of what runs a model there.
fn identity(sdk: &Path) -> String {
    let part = |file| {
        Digest::of_file(&sdk.join(file))
            .map_or("absent".into(), |digest| digest.short().to_string())
    };
    let version = version(sdk).unwrap_or_else(|| "of no version".into());
    format!("QNN SDK {version}, {} {}", part(RUNNER), part(LIBRARY))
}

/// One line of `adb devices -l`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phone {
    pub serial: String,
    /// `device`, `unauthorized`, `offline`, …
    pub state: String,
}

/// The lines of `adb devices -l`; what its server says as it starts is no phone.
pub fn phones(list: &str) -> Vec<Phone> {
    let lines = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('*') && !line.starts_with("List of"));
    let phone = |line: &str| {
        let (serial, rest) = line.split_once(char::is_whitespace)?;
        let rest = rest.trim();
        // `no permissions (…)` is the one state of several words.
        let state = if rest.starts_with("no permissions") {
            "no permissions"
        } else {
            rest.split_whitespace().next()?
        };
        Some(Phone {
            serial: serial.to_owned(),
            state: state.to_owned(),
        })
    };
    lines.filter_map(phone).collect()
}

/// The phone of this serial number, or the only one that can be used.
pub fn choose<'p>(phones: &'p [Phone], serial: Option<&str>) -> Result<&'p Phone, String> {
    if let Some(serial) = serial {
        let phone = phones.iter().find(|phone| phone.serial == serial);
        let phone = phone.ok_or_else(|| format!("adb lists no phone {serial}"))?;
        return phone.usable().map(|()| phone);
    }
    let usable: Vec<_> = phones
        .iter()
        .filter(|phone| phone.usable().is_ok())
        .collect();
    match (usable[..].len(), phones) {
        (1, _) => Ok(usable[0]),
        (0, []) => Err("adb lists no phone".to_owned()),
        (0, _) => Err(phones
            .iter()
            .filter_map(|phone| phone.usable().err())
            .collect::<Vec<_>>()
            .join("; ")),
        _ => {
            let serials: Vec<_> = usable.iter().map(|phone| phone.serial.as_str()).collect();
            Err(format!(
                "several phones are there: name one by the option `serial` ({})",
                serials.join(", ")
            ))
        }
    }
}

impl Phone {
    fn usable(&self) -> Result<(), String> {
        let serial = &self.serial;
        match self.state.as_str() {
            "device" => Ok(()),
            "unauthorized" => Err(format!(
                "phone {serial} is unauthorized: allow this machine on its screen"
            )),
            "offline" => Err(format!("phone {serial} is offline: connect it again")),
            "no permissions" => Err(format!(
                "this user may not open phone {serial}: it needs a udev rule"
            )),
            other => Err(format!("phone {serial} is in state `{other}`")),
        }
    }
}

/// What a phone says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    pub maker: String,
    /// Android 12 and newer tell it.
    pub soc: String,
    pub abi: String,
    pub model: String,
    pub release: String,
}

impl Properties {
    /// The properties in the answer to [`PROPERTIES`].
    pub fn of(answer: &str) -> Self {
        let mut lines = answer.lines().map(|line| line.trim().to_owned());
        let mut next = || lines.next().unwrap_or_default();
        Self {
            maker: next(),
            soc: next(),
            abi: next(),
            model: next(),
            release: next(),
        }
    }

    /// Its chip, as far as orch has a row for it; an error if it is no Snapdragon that QNN's libraries run on.
    pub fn chip(&self) -> Result<Option<&'static Chip>, String> {
        let Self {
            maker,
            soc,
            abi,
            model,
            ..
        } = self;
        let silent =
            || format!("{model} does not tell its chip (ro.soc.model), as Android 12 and newer do");
        ensure(!soc.is_empty(), silent)?;
        let is_snapdragon = ["QTI", "Qualcomm"].contains(&maker.as_str());
        ensure(is_snapdragon, || {
            format!("{model} has no Snapdragon: its chip is {maker} {soc}")
        })?;
        ensure(abi == "arm64-v8a", || {
            format!("{model} runs {abi}, and QNN's libraries are for arm64-v8a")
        })?;
        Ok(snapdragon::by_soc(soc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n\
        List of devices attached\nR5CT\tdevice usb:1-1 product:dm3q model:SM_S918B transport_id:1\n\
        0A1B\tunauthorized usb:1-2 transport_id:2\n2222\tno permissions (user in plugdev group); see [http://x]\n\n";

    #[test]
    fn the_list_is_read_with_its_states() {
        let phones = phones(LIST);
        let states: Vec<_> = phones
            .iter()
            .map(|phone| (phone.serial.as_str(), phone.state.as_str()))
            .collect();
        assert_eq!(
            states,
            [
                ("R5CT", "device"),
                ("0A1B", "unauthorized"),
                ("2222", "no permissions")
            ]
        );
        assert_eq!(choose(&phones, None).unwrap().serial, "R5CT");
        assert!(
            choose(&phones, Some("0A1B"))
                .unwrap_err()
                .contains("allow this machine on its screen")
        );
        assert_eq!(
            choose(&phones, Some("none")).unwrap_err(),
            "adb lists no phone none"
        );
        assert_eq!(
            choose(&phones[1..2], None).unwrap_err(),
            choose(&phones, Some("0A1B")).unwrap_err()
        );
        assert_eq!(choose(&[], None).unwrap_err(), "adb lists no phone");
        let two = [
            phones[0].clone(),
            Phone {
                serial: "X".into(),
                state: "device".into(),
            },
        ];
        assert!(choose(&two, None).unwrap_err().ends_with("(R5CT, X)"));
    }

    #[test]
    fn only_a_snapdragon_of_64_bits_is_one() {
        let chip = |answer: &str| Properties::of(answer).chip();
        assert_eq!(
            chip("QTI\r\nSM8550\r\narm64-v8a\r\nPhone\r\n14\r\n")
                .unwrap()
                .unwrap()
                .htp,
            "V73"
        );
        assert_eq!(chip("QTI\nSM9999\narm64-v8a\nPhone\n14\n").unwrap(), None);
        assert!(
            chip("\n\nx86_64\nsdk_gphone\n14\n")
                .unwrap_err()
                .contains("does not tell its chip")
        );
        assert!(
            chip("Google\nTensor G3\narm64-v8a\nPixel 8\n14\n")
                .unwrap_err()
                .contains("no Snapdragon")
        );
        assert!(
            chip("QTI\nSM8550\narmeabi-v7a\nPhone\n14\n")
                .unwrap_err()
                .contains("armeabi-v7a")
        );
    }

    #[test]
    fn phones_that_cannot_be_used_are_reasons() {
        let say = |args: &[&str]| match args {
            ["devices", "-l"] => Some(LIST.to_owned()),
            ["-s", "R5CT", "shell", _] => Some("QTI\nSM8550\narm64-v8a\nSM-S918B\n14\n".to_owned()),
            other => panic!("{other:?}"),
        };
        let devices = found(&say, None).unwrap();
        assert_eq!(
            (devices.len(), devices[0].id.as_str()),
            (1, "qnn-android:R5CT")
        );
        assert_eq!(
            (
                &devices[0].facts["soc_model"],
                &devices[0].facts["htp_arch"]
            ),
            (&json!(43), &json!("V73"))
        );
        assert!(
            found(&say, Some("0A1B"))
                .unwrap_err()
                .contains("unauthorized")
        );
        assert!(found(&say, Some("?")).unwrap_err().contains(SERIAL));
        assert!(
            found(&|_| None, None)
                .unwrap_err()
                .starts_with("adb does not list")
        );
    }

    #[test]
    fn without_adb_or_sdk_the_reason_names_the_variable() {
        let host = Host::recorded("neither");
        assert_eq!(
            adb(&host.with_env(ADB, "/nowhere/adb"))
                .unwrap_err()
                .split(" is")
                .next(),
            Some("ORCH_ADB=/nowhere/adb")
        );
        assert!(
            sdk(&Host::recorded("neither"))
                .unwrap_err()
                .starts_with("QNN_SDK_ROOT is not set")
        );
        let host = Host::recorded("neither").with_env(SDK, "/opt/qnn");
        assert_eq!(
            sdk(&host).unwrap_err(),
            format!("QNN_SDK_ROOT=/opt/qnn has no {RUNNER}")
        );
    }
}
