//! The vendor's runner, started on the phone.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::adb::{Adb, Late};
use super::phone::Run;
use crate::base::shell::quoted;
use crate::base::text::last_line;
use crate::runtime::JobStatus;
use crate::runtime::refusal::Refusal;

/// The arguments of the runner on the phone, as paths on the phone.
#[derive(Clone)]
pub(super) struct OnPhone {
    pub(super) sdk: String,
    pub(super) binary: String,
    pub(super) list: String,
    /// A folder of its own for what it leaves.
    pub(super) out: &'static str,
}

pub(super) fn execute(
    adb: &Adb,
    run: &Run<'_>,
    OnPhone {
        sdk,
        binary,
        list,
        out,
    }: &OnPhone,
    count: usize,
    performance: Option<&str>,
) -> Result<()> {
    // The phone ends it first, so that nothing goes on there when this side gives up.
    let seconds = adb
        .deadline
        .saturating_duration_since(Instant::now())
        .as_secs()
        .saturating_sub(1)
        .max(1);
    // The HTP's half is looked for by the DSP's loader, in a list of its own; the rest are the system's places.
    let adsp = format!("{sdk};/vendor/dsp/cdsp;/vendor/lib/rfsa/adsp;/system/lib/rfsa/adsp;/dsp");
    let mut script = format!(
        "cd {} && export LD_LIBRARY_PATH={} ADSP_LIBRARY_PATH={} && timeout -s KILL {seconds} {}",
        quoted(&run.folder),
        quoted(sdk),
        quoted(&adsp),
        quoted(&format!("{sdk}/qnn-net-run")),
    );
    let backend = format!("{sdk}/libQnnHtp.so");
    let out = format!("{}/{out}", run.folder);
    let count = count.to_string();
    let mut arguments = vec![
        ("--backend", backend.as_str()),
        ("--retrieve_context", binary),
        ("--input_list", list),
        ("--output_dir", &out),
        ("--num_inferences", &count),
        // Those of the first inference, as with every other runtime.
        ("--keep_num_outputs", "1"),
        ("--profiling_level", "basic"),
    ];
    arguments.extend(performance.map(|performance| ("--perf_profile", performance)));
    for (name, value) in arguments {
        script.push_str(&format!(" {name} {}", quoted(value)));
    }
    script.push_str(" --use_native_input_files --use_native_output_files 2>&1");
    let output = adb.shell(&script)?;
    let last = last_line(&output.text).unwrap_or("it said nothing");
    match output.code {
        0 => Ok(()),
        137 if adb.deadline.saturating_duration_since(Instant::now()) < Duration::from_secs(3) => {
            Err(Late.into())
        }
        signal @ 129..=192 => {
            let reason = format!(
                "qnn-net-run died of signal {} on the phone: {last}",
                signal - 128
            );
            Err(Refusal::because(JobStatus::Crash, reason))
        }
        code => bail!("qnn-net-run ended with {code} on the phone: {last}"),
    }
}
