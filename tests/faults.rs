//! A hundred runs that misbehave, on the real executor: each is one outcome with its own reason in its own place, and no
//! process is left. It needs the `torch` environment: the models are real ones with code of their own, which the real
//! Python server executes.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use support::{Sandbox, marker, processes_with};

/// What one run does, and what must be said of it.
struct Fault {
    name: &'static str,
    /// Shell, or Python.
    code: &'static str,
    outcome: &'static str,
    reason: &'static str,
    times: usize,
}

const fn fault(
    name: &'static str,
    times: usize,
    outcome: &'static str,
    reason: &'static str,
    code: &'static str,
) -> Fault {
    Fault {
        name,
        code,
        outcome,
        reason,
        times,
    }
}

/// Steps of the user's own; `MARK` becomes what the test looks for, `ESCAPE` a process in a session of its own, whose
/// parent has ended, and whose environment is empty.
const COMMANDS: &[Fault] = &[
    fault("good", 6, "PASS", "", "echo well > out"),
    fault(
        "exit",
        6,
        "FAIL",
        "ended with exit status: 7: no such thing",
        "echo no such thing >&2; exit 7",
    ),
    fault(
        "none",
        4,
        "FAIL",
        "did not make its declared output `out`",
        "true",
    ),
    fault("segv", 6, "CRASH", "SIGSEGV", "kill -SEGV $$"),
    fault("kill", 4, "CRASH", "SIGKILL", "kill -KILL $$"),
    fault("hang", 6, "TIMEOUT", "within 1 s", "sleep 300; : MARK"),
    fault(
        "deaf",
        4,
        "TIMEOUT",
        "within 1 s",
        "trap '' TERM; sh -c \"trap '' TERM; sleep 300; : MARK\" & wait; sleep 300",
    ),
    fault(
        "below",
        6,
        "PASS",
        "",
        "sh -c 'sleep 300; : MARK' & echo > out",
    ),
    fault("escape", 8, "PASS", "", "ESCAPE; echo > out"),
    fault(
        "escape-crash",
        6,
        "CRASH",
        "SIGABRT",
        "ESCAPE; kill -ABRT $$",
    ),
    fault(
        "escape-hang",
        4,
        "TIMEOUT",
        "within 1 s",
        "ESCAPE; sleep 300",
    ),
    fault(
        "flood",
        3,
        "PASS",
        "",
        "yes 'MARK' | head -c 60000000; echo > out",
    ),
    fault("drown", 2, "TIMEOUT", "within 1 s", "yes 'MARK'"),
    fault(
        "eat",
        2,
        "OOM",
        "more than its limit of 1.5 GiB",
        "exec python3 -c \"EAT\" MARK",
    ),
    fault(
        "eat-below",
        1,
        "OOM",
        "more than its limit of 1.5 GiB",
        "python3 -c \"EAT\" MARK & wait",
    ),
];

const EAT: &str = "import itertools\nb = [bytearray(b'x') * (16 << 20) for i in itertools.count()]";
const ESCAPE: &str = "(setsid env -i sh -c 'touch in; sleep 300; : MARK' < /dev/null &); while [ ! -e in ]; do :; done";

impl Fault {
    /// Its outcome, and words of the reason. Where the kernel keeps signals inside a sandbox, nobody kills a server.
    fn ending(&self) -> (&'static str, &'static str) {
        match (self.name, orch::confine::Enforced::here()) {
            ("run-server", orch::confine::Enforced::Landlock(6..)) => {
                ("FAIL", "Operation not permitted")
            }
            _ => (self.outcome, self.reason),
        }
    }
}

/// Code of models, executed when they are made.
const MADE: &[Fault] = &[
    fault("segv", 3, "CRASH", "SIGSEGV", "ctypes.string_at(0)"),
    fault("exit", 2, "CRASH", "exited with code 9", "os._exit(9)"),
    fault(
        "raise",
        2,
        "FAIL",
        "KeyError: 'no such thing'",
        "raise KeyError('no such thing')",
    ),
    fault("memory", 2, "OOM", "MemoryError", "raise MemoryError"),
    fault(
        "eat",
        1,
        "OOM",
        "more than its limit of 1.5 GiB",
        "b = [bytearray(b'x') * (16 << 20) for i in range(1000)]",
    ),
    fault(
        "junk",
        2,
        "FAIL",
        "it wrote junk to the descriptor",
        "os.write(answer(), b'{\"output\": 7}\\n'); time.sleep(60)",
    ),
    fault(
        "half",
        2,
        "FAIL",
        "half a line",
        "os.write(answer(), b'{\"out'); os._exit(0)",
    ),
    fault(
        "long",
        1,
        "FAIL",
        "a line of more than",
        "[os.write(answer(), b'x' * 65536) for i in range(1000)]",
    ),
    fault(
        "shut",
        2,
        "CRASH",
        "exited with code 1",
        "os.close(answer())",
    ),
    fault("escape", 3, "PASS", "", "escape()"),
    fault(
        "escape-crash",
        3,
        "CRASH",
        "SIGABRT",
        "escape(); os.abort()",
    ),
    fault("flood", 1, "PASS", "", "print('x' * 30_000_000)"),
    fault("good", 2, "PASS", "", ""),
];

/// Code of models, executed when they are run.
const RUN: &[Fault] = &[
    fault("run-segv", 2, "CRASH", "SIGSEGV", "ctypes.string_at(0)"),
    fault(
        "run-deaf",
        1,
        "TIMEOUT",
        "within 3 s",
        "signal.signal(15, signal.SIG_IGN); escape(); time.sleep(300)",
    ),
    fault(
        "run-eat",
        1,
        "OOM",
        "more than its limit of 1.5 GiB",
        "b = [bytearray(b'x') * (16 << 20) for i in range(1000)]",
    ),
    fault(
        "run-twice",
        1,
        "FAIL",
        "a line after its answer",
        "[os.write(answer(), b'{\"output\": {\"status\": \"ok\", \"facts\": {}}}\\n') for i in 'xx']; time.sleep(60)",
    ),
    fault(
        "run-server",
        1,
        "CRASH",
        "the Python server ended (signal: 9 (SIGKILL)) while this was its only job",
        "escape(); os.kill(os.getppid(), 9); time.sleep(60)",
    ),
];

const SPEC: &str = "version: 1
pipelines: {text: {description: ids to logits, tasks: [fill-mask]}}
measure: {warmup: 0, samples: 1, timeout_seconds: 60}
targets:
  eager: &eager {runtime: python, backend: cpu, artefact: model, precisions: [fp32]}
  short: {<<: *eager, measure: {timeout_seconds: 3}}
matrix:
  targets: [eager]
  include: [{model: run-deaf-0, target: short}]
  exclude: [{model: run-deaf-0, target: eager, reason: it never ends}]
models:
";

const MODEL: &str = r#"
import ctypes, os, signal, sys, time
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

class OddConfig(PreTrainedConfig):
    model_type = "odd"

class OddModel(PreTrainedModel):
    config_class = OddConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(8, 4)
        self.post_init()

    def forward(self, input_ids):
        return MaskedLMOutput(logits=self.table(input_ids))

OddConfig.register_for_auto_class()
OddModel.register_for_auto_class("AutoModel")

def answer():
    """The descriptor for the answer, which is no business of a model's."""
    pipes = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and "pipe:" in os.readlink(f"/proc/self/fd/{fd}")]
    return pipes[0]

def escape():
    """A process that leaves group and session as daemons do."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["sh", "-c", "sleep 300; : MARK"], {})
        os._exit(0)

if ("--json" in sys.argv) == AT_RUN:
    CODE
"#;

/// One tensor, `table.weight`, in the format of safetensors.
fn weights() -> Vec<u8> {
    let head =
        br#"{"__metadata__":{"format":"pt"},"table.weight":{"dtype":"F32","shape":[8,4],"data_offsets":[0,128]}}"#;
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head);
    (0_u8..32).for_each(|n| bytes.extend(f32::from(n).to_le_bytes()));
    bytes
}

/// Processes that an orch has started, directly or not, by the mark that each of them carries.
fn carriers(orch: u32) -> Vec<u32> {
    let mark = format!("ORCH_RUN={orch}-");
    let pids = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let carries = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| String::from_utf8_lossy(&all).contains(&mark))
    };
    pids.filter(carries).collect()
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_hundred_runs_that_misbehave_leave_a_right_report_and_no_process() {
    let mark = marker("fault");
    let sandbox = Sandbox::new().installs();
    let sandbox = {
        let home = sandbox.path("hf").display().to_string();
        sandbox.env("HF_HOME", home)
    };
    let mut spec = SPEC.to_owned();
    // By step.
    let mut expected = BTreeMap::new();
    for (faults, at_run) in [(MADE, "False"), (RUN, "True")] {
        for (fault, n) in faults
            .iter()
            .flat_map(|fault| (0..fault.times).map(move |n| (fault, n)))
        {
            let name = format!("{}-{n}", fault.name);
            let code = if fault.code.is_empty() {
                "pass"
            } else {
                fault.code
            };
            let text = MODEL
                .replace("AT_RUN", at_run)
                .replace("CODE", code)
                .replace("MARK", &mark);
            sandbox.write(&format!("odd/{name}/odd.py"), text);
            sandbox.write(&format!("odd/{name}/model.safetensors"), weights());
            // The name is there so that no two models are the same and one is made for both.
            let config = format!(
                r#"{{"model_type":"odd","architectures":["OddModel"],"name":"{name}",
                    "auto_map":{{"AutoConfig":"odd.OddConfig","AutoModel":"odd.OddModel"}}}}"#
            );
            sandbox.write(&format!("odd/{name}/config.json"), config);
            let inputs = "inputs: {input_ids: {dtype: int64, shape: [batch, seq], value: 1}}";
            writeln!(
                spec,
                "  {name}: {{class: AutoModel, weights: path, path: odd/{name}, trust_remote_code: true, \
                 family: encoder-only, task: fill-mask, pipeline: text, {inputs}}}"
            )
            .unwrap();
            // What passed when it was made is run, too.
            let step = if at_run == "False" && fault.outcome != "PASS" {
                "generate"
            } else {
                "run"
            };
            let target = if fault.outcome == "TIMEOUT" {
                "short"
            } else {
                "eager"
            };
            let step = if step == "run" {
                format!("run:{name}:{target}-fp32")
            } else {
                format!("generate:{name}")
            };
            expected.insert(step, fault);
        }
    }
    spec.push_str("commands:\n");
    for (fault, n) in COMMANDS
        .iter()
        .flat_map(|fault| (0..fault.times).map(move |n| (fault, n)))
    {
        let name = format!("{}-{n}", fault.name);
        let code = fault
            .code
            .replace("ESCAPE", ESCAPE)
            .replace("EAT", EAT)
            .replace("MARK", &mark);
        let argv = serde_json::to_string(&["sh", "-c", &code, &name]).unwrap();
        let seconds = if fault.outcome == "TIMEOUT" { 1 } else { 60 };
        writeln!(
            spec,
            "  {name}: {{argv: {argv}, outputs: [out], timeout_seconds: {seconds}}}"
        )
        .unwrap();
        expected.insert(format!("command:{name}"), fault);
    }
    assert_eq!(expected.len(), 100);
    let sandbox = sandbox.file("spec.yaml", spec);

    let child = sandbox.spawn([
        "run",
        "spec.yaml",
        "--json",
        "--jobs",
        "4",
        "--job-memory",
        "1536MiB",
    ]);
    let orch = child.id();
    let ended = sandbox.wait(child).code(1);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(carriers(orch), Vec::<u32>::new());

    let run = sandbox.run(["history", "1", "--json"]).success().json();
    let steps = run["steps"].as_array().unwrap();
    let found: BTreeMap<_, _> = steps
        .iter()
        .map(|step| (step["step"].as_str().unwrap(), step))
        .collect();
    let mut wrong = String::new();
    for (step, fault) in &expected {
        let Some(found) = found.get(step.as_str()) else {
            writeln!(wrong, "{step} is missing").unwrap();
            continue;
        };
        let reason = found["reason"].as_str().unwrap_or_default();
        let (outcome, words) = fault.ending();
        if found["outcome"] != outcome
            || !reason.contains(words)
            || reason.is_empty() != words.is_empty()
        {
            writeln!(
                wrong,
                "{step}: {} ({reason}), expected {outcome} ({words})",
                found["outcome"]
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");

    // Each cell of the report says the same.
    for case in ended.json()["cases"].as_array().unwrap() {
        let name = case["model"].as_str().unwrap();
        let fault = MADE
            .iter()
            .chain(RUN)
            .find(|fault| Some(fault.name) == name.rsplit_once('-').map(|(name, _)| name));
        assert_eq!(case["status"], fault.unwrap().ending().0, "{case}");
    }
    for log in sandbox.stored_files("logs") {
        assert!(
            fs::metadata(&log).unwrap().len() < 11 << 20,
            "{}",
            log.display()
        );
    }
    sandbox.run(["cache", "verify"]).success();
}
