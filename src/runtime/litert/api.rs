//! A safe shell over the part of LiteRT's C API that a run needs. Knows nothing of jobs, trees or tolerances.
//!
//! The table is that of one version: functions change between patch releases (`LiteRtCreateModelFromFile` takes an
//! argument more since 2.1.6), and the library does not say which it is. What is made here lives as long as the process,
//! which is a worker's and does one job.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks are sound for the same reason, which stands at their head"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use crate::base::c_functions::c_functions;
use crate::runtime::JobStatus;
use crate::runtime::tensors::{Element, Tensor};

/// The version of the wheel `ai-edge-litert` whose headers this follows.
pub(super) const VERSION: &str = "2.3.0";

/// Every object of the library: environment, model, signature, options, compiled model, buffer, profiler.
type Handle = *mut c_void;
type Status = c_int;

c_functions! {
    pub(super) struct Table of VERSION;
    create_environment = "LiteRtCreateEnvironment"(c_int, *const c_void, *mut Handle) -> Status;
    create_model = "LiteRtCreateModelFromFile"(Handle, *const c_char, *mut Handle) -> Status;
    model_signature = "LiteRtGetModelSignature"(Handle, usize, *mut Handle) -> Status;
    count_inputs = "LiteRtGetNumSignatureInputs"(Handle, *mut usize) -> Status;
    count_outputs = "LiteRtGetNumSignatureOutputs"(Handle, *mut usize) -> Status;
    input_name = "LiteRtGetSignatureInputName"(Handle, usize, *mut *const c_char) -> Status;
    output_name = "LiteRtGetSignatureOutputName"(Handle, usize, *mut *const c_char) -> Status;
    input_tensor = "LiteRtGetSignatureInputTensorByIndex"(Handle, usize, *mut Handle) -> Status;
    output_tensor = "LiteRtGetSignatureOutputTensorByIndex"(Handle, usize, *mut Handle) -> Status;
    tensor_type = "LiteRtGetRankedTensorType"(Handle, *mut TensorType) -> Status;
    create_options = "LiteRtCreateOptions"(*mut Handle) -> Status;
    set_accelerators = "LiteRtSetOptionsHardwareAccelerators"(Handle, c_int) -> Status;
    create_opaque = "LiteRtCreateOpaqueOptions"(*const c_char, *mut c_char, unsafe extern "C" fn(*mut c_char), *mut Handle) -> Status;
    add_opaque = "LiteRtAddOpaqueOptions"(Handle, Handle) -> Status;
    compile = "LiteRtCreateCompiledModel"(Handle, Handle, Handle, *mut Handle) -> Status;
    input_needs = "LiteRtGetCompiledModelInputBufferRequirements"(Handle, usize, usize, *mut Handle) -> Status;
    output_needs = "LiteRtGetCompiledModelOutputBufferRequirements"(Handle, usize, usize, *mut Handle) -> Status;
    create_buffer = "LiteRtCreateManagedTensorBufferFromRequirements"(Handle, *const TensorType, Handle, *mut Handle) -> Status;
    lock = "LiteRtLockTensorBuffer"(Handle, *mut *mut c_void, c_int) -> Status;
    unlock = "LiteRtUnlockTensorBuffer"(Handle) -> Status;
    packed_size = "LiteRtGetTensorBufferPackedSize"(Handle, *mut usize) -> Status;
    run = "LiteRtRunCompiledModel"(Handle, usize, usize, *mut Handle, usize, *mut Handle) -> Status;
    profiler = "LiteRtCompiledModelGetProfiler"(Handle, *mut Handle) -> Status;
    start_profiler = "LiteRtStartProfiler"(Handle) -> Status;
    stop_profiler = "LiteRtStopProfiler"(Handle) -> Status;
    profile_summary = "LiteRtGetProfileSummary"(Handle, Handle, *mut *mut c_char) -> Status;
}

/// The CPU of `LiteRtHwAccelerators`, which is XNNPACK and LiteRT's own kernels.
const ACCELERATOR_CPU: c_int = 1;
const LOCK_TO_READ: c_int = 0;
const LOCK_TO_WRITE: c_int = 1;
/// litert-torch writes one signature, which is the whole model.
const SIGNATURE: usize = 0;

/// `LiteRtRankedTensorType`, whose size and places the headers assert.
#[repr(C)]
#[derive(Clone, Copy)]
struct TensorType {
    element: c_int,
    /// Seven bits, and one that says whether there are strides.
    rank: u32,
    dimensions: [i32; 8],
    strides: [u32; 8],
}

const _: () = assert!(size_of::<TensorType>() == 72);

/// The library's answer, which is a number.
#[derive(Debug, thiserror::Error)]
#[error("LiteRT failed to {doing} (status {status}; its own words are in the step's log)")]
pub(super) struct Failure {
    doing: &'static str,
    status: Status,
}

impl Failure {
    /// What the number says of a job, where it says something.
    pub(super) fn status(&self) -> Option<JobStatus> {
        match self.status {
            2 => Some(JobStatus::Oom),
            // Unsupported, and failed compilation: it has no kernel for an operator.
            5 | 504 => Some(JobStatus::Unsupported),
            _ => None,
        }
    }
}

fn check(doing: &'static str, status: Status) -> Result<(), Failure> {
    if status == 0 {
        Ok(())
    } else {
        Err(Failure { doing, status })
    }
}

/// What a C function made through its out-parameter.
fn made(doing: &'static str, make: impl FnOnce(*mut Handle) -> Status) -> Result<Handle, Failure> {
    let mut handle = null_mut();
    check(doing, make(&mut handle))?;
    assert!(
        !handle.is_null(),
        "BUG in LiteRT: success without an object"
    );
    Ok(handle)
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
}

pub(super) struct Model {
    table: Rc<Table>,
    environment: Handle,
    model: Handle,
    signature: Handle,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

#[derive(Clone, Copy)]
enum Side {
    Input,
    Output,
}

impl Side {
    /// That of its own, of a pair of the library's functions.
    fn of<F>(self, input: F, output: F) -> F {
        match self {
            Self::Input => input,
            Self::Output => output,
        }
    }
}

// SAFETY of the unsafe blocks below: every handle was made by the library and is never freed; every other pointer is to a
// value that outlives the call. The library copies what it keeps, but for the texts of options, which it owns.
impl Model {
    pub(super) fn read(table: Rc<Table>, path: &Path) -> Result<Self> {
        let path = CString::new(path.to_str().context("the model's path is not UTF-8")?)
            .context("in the model's path")?;
        let environment = made("start", |out| unsafe {
            (table.create_environment)(0, null(), out)
        })?;
        let model = made("read the model", |out| unsafe {
            (table.create_model)(environment, path.as_ptr(), out)
        })?;
        let signature = made("find the model's signature", |out| unsafe {
            (table.model_signature)(model, SIGNATURE, out)
        })?;
        let mut read = Self {
            table,
            environment,
            model,
            signature,
            inputs: vec![],
            outputs: vec![],
        };
        (read.inputs, read.outputs) = (read.ports(Side::Input)?, read.ports(Side::Output)?);
        Ok(read)
    }

    fn ports(&self, side: Side) -> Result<Vec<Port>> {
        let count_of = side.of(self.table.count_inputs, self.table.count_outputs);
        let mut count = 0;
        check("count inputs and outputs", unsafe {
            count_of(self.signature, &mut count)
        })?;
        (0..count).map(|index| self.port(side, index)).collect()
    }

    fn port(&self, side: Side, index: usize) -> Result<Port> {
        let name_of = side.of(self.table.input_name, self.table.output_name);
        let mut name = null();
        check("name an input or output", unsafe {
            name_of(self.signature, index, &mut name)
        })?;
        let name = unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned();
        let raw = self.tensor_type(side, index)?;
        let rank = (raw.rank & 0x7f) as usize;
        let element = element(raw.element);
        let element = element.with_context(|| {
            format!(
                "`{name}` has LiteRT's type {}, which orch does not read",
                raw.element
            )
        })?;
        ensure!(
            rank <= raw.dimensions.len(),
            "BUG in LiteRT: `{name}` has {rank} axes"
        );
        let shape = raw.dimensions[..rank]
            .iter()
            .map(|size| usize::try_from(*size));
        let shape = shape
            .collect::<Result<_, _>>()
            .with_context(|| format!("`{name}` has an open size"))?;
        Ok(Port {
            name,
            element,
            shape,
        })
    }

    fn tensor_type(&self, side: Side, index: usize) -> Result<TensorType, Failure> {
        let tensor_of = side.of(self.table.input_tensor, self.table.output_tensor);
        let tensor = made("find a tensor", |out| unsafe {
            tensor_of(self.signature, index, out)
        })?;
        let mut raw = TensorType {
            element: 0,
            rank: 0,
            dimensions: [0; 8],
            strides: [0; 8],
        };
        check("tell a tensor's type", unsafe {
            (self.table.tensor_type)(tensor, &mut raw)
        })?;
        Ok(raw)
    }

    /// Compiles for the CPU and so many threads. A profiled one is for counting, not for timing.
    pub(super) fn compile(
        self: &Rc<Self>,
        threads: usize,
        profiled: bool,
    ) -> Result<Compiled, Failure> {
        let options = made("make options", |out| unsafe {
            (self.table.create_options)(out)
        })?;
        check("choose the CPU", unsafe {
            (self.table.set_accelerators)(options, ACCELERATOR_CPU)
        })?;
        self.add_option(options, c"xnnpack", &format!("num_threads = {threads}\n"))?;
        if profiled {
            self.add_option(
                options,
                c"runtime_options_string",
                "enable_profiling = true\n",
            )?;
        }
        let compiled = made("compile the model", |out| unsafe {
            (self.table.compile)(self.environment, self.model, options, out)
        })?;
        let buffers = |side, count| {
            (0..count)
                .map(|index| self.buffer(compiled, side, index))
                .collect::<Result<_, _>>()
        };
        let inputs = buffers(Side::Input, self.inputs.len())?;
        let outputs = buffers(Side::Output, self.outputs.len())?;
        Ok(Compiled {
            of: Rc::clone(self),
            compiled,
            inputs,
            outputs,
        })
    }

    /// Options of one part of the library are a text under that part's name.
    fn add_option(&self, options: Handle, part: &CStr, text: &str) -> Result<(), Failure> {
        unsafe extern "C" fn free(text: *mut c_char) {
            // SAFETY: it is the text that was given away just below.
            drop(unsafe { CString::from_raw(text) });
        }
        let text = CString::new(text)
            .expect("BUG: an option with a zero byte")
            .into_raw();
        let opaque = made("make an option", |out| unsafe {
            (self.table.create_opaque)(part.as_ptr(), text, free, out)
        })?;
        check("add an option", unsafe {
            (self.table.add_opaque)(options, opaque)
        })
    }

    fn buffer(&self, compiled: Handle, side: Side, index: usize) -> Result<Handle, Failure> {
        let needs_of = side.of(self.table.input_needs, self.table.output_needs);
        let needs = made("size a buffer", |out| unsafe {
            needs_of(compiled, SIGNATURE, index, out)
        })?;
        let raw = self.tensor_type(side, index)?;
        made("make a buffer", |out| unsafe {
            (self.table.create_buffer)(self.environment, &raw, needs, out)
        })
    }
}

/// A model that can run, with its own memory for what goes in and comes out.
pub(super) struct Compiled {
    pub(super) of: Rc<Model>,
    compiled: Handle,
    inputs: Vec<Handle>,
    outputs: Vec<Handle>,
}

impl Compiled {
    pub(super) fn set_input(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        let memory = Locked::of(self, self.inputs[index], LOCK_TO_WRITE)?;
        ensure!(
            memory.size == tensor.bytes().len(),
            "it has {} bytes and LiteRT takes {}",
            tensor.bytes().len(),
            memory.size
        );
        // SAFETY: the lock is for writing, and the sizes are equal.
        unsafe {
            std::ptr::copy_nonoverlapping(tensor.bytes().as_ptr(), memory.start.cast(), memory.size)
        };
        Ok(())
    }

    pub(super) fn output(&self, index: usize) -> Result<Tensor> {
        let port = &self.of.outputs[index];
        let memory = Locked::of(self, self.outputs[index], LOCK_TO_READ)?;
        // SAFETY: so many bytes are the buffer's, by the library's word.
        let bytes =
            unsafe { std::slice::from_raw_parts(memory.start.cast::<u8>(), memory.size) }.to_vec();
        Tensor::new(port.element, port.shape.clone(), bytes)
    }

    /// Returns when the outputs are complete.
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        let inputs = &mut self.inputs;
        let outputs = &mut self.outputs;
        check("run the model", unsafe {
            let given = inputs.as_mut_ptr();
            let made = outputs.as_mut_ptr();
            (self.of.table.run)(
                self.compiled,
                SIGNATURE,
                inputs.len(),
                given,
                outputs.len(),
                made,
            )
        })
    }

    /// Runs once, and gives LiteRT's own table of what was executed.
    pub(super) fn profile(&mut self) -> Result<String> {
        let table = &self.of.table;
        let profiler = made("make a profiler", |out| unsafe {
            (table.profiler)(self.compiled, out)
        })?;
        check("start the profiler", unsafe {
            (table.start_profiler)(profiler)
        })?;
        self.run()?;
        check("stop the profiler", unsafe {
            (self.of.table.stop_profiler)(profiler)
        })?;
        let mut text = null_mut();
        check("tell the profile", unsafe {
            (self.of.table.profile_summary)(profiler, self.compiled, &mut text)
        })?;
        ensure!(!text.is_null(), "LiteRT gave an empty profile");
        // SAFETY: it is a terminated string that the caller frees with C's `free`.
        let summary = unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned();
        unsafe { libc::free(text.cast()) };
        Ok(summary)
    }
}

/// A buffer's memory, for as long as this value lives.
struct Locked<'m> {
    table: &'m Table,
    buffer: Handle,
    start: *mut c_void,
    size: usize,
}

impl<'m> Locked<'m> {
    fn of(compiled: &'m Compiled, buffer: Handle, mode: c_int) -> Result<Self, Failure> {
        let table = &compiled.of.table;
        let mut start = null_mut();
        let mut size = 0;
        check("size a buffer", unsafe {
            (table.packed_size)(buffer, &mut size)
        })?;
        check("open a buffer", unsafe {
            (table.lock)(buffer, &mut start, mode)
        })?;
        Ok(Self {
            table,
            buffer,
            start,
            size,
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: it was locked once, by `of`.
        unsafe { (self.table.unlock)(self.buffer) };
    }
}

/// The element of this number of `LiteRtElementType`.
fn element(number: c_int) -> Option<Element> {
    Some(match number {
        1 => Element::Float32,
        2 => Element::Int32,
        3 => Element::Uint8,
        4 => Element::Int64,
        6 => Element::Bool,
        7 => Element::Int16,
        9 => Element::Int8,
        10 => Element::Float16,
        11 => Element::Float64,
        13 => Element::Uint64,
        16 => Element::Uint32,
        17 => Element::Uint16,
        19 => Element::Bfloat16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::{EnvName, Locks, Tool};

    #[test]
    fn the_lock_brings_the_version_that_the_table_is_of() {
        let tool = Tool {
            env: EnvName::Litert,
            package: "ai-edge-litert",
        };
        assert!(
            Locks::default()
                .identity(tool)
                .starts_with(&format!("{VERSION}+"))
        );
    }

    #[test]
    fn every_type_but_text_and_the_smallest_is_read() {
        let known: Vec<_> = (0..21).filter_map(element).collect();
        assert!(
            Element::ALL
                .into_iter()
                .all(|element| known.contains(&element))
        );
        assert_eq!(element(5), None);
    }
}
