//! A safe shell over the part of OpenVINO's C API that a run needs besides `openvino.rs`. Knows nothing of jobs, trees or
//! tolerances.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks are sound for the same reason, which stands at their head"
)]

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};

use anyhow::{Context, Result, bail};
use openvino_sys as sys;
use openvino_sys::{ov_element_type_e as ElementType, ov_status_e as Status};

use crate::openvino::{COMPILE_BY_VARARGS, Core, Failure, c_string, check, made, text};
use crate::runtime::tensors::{Element, Tensor};

// SAFETY of the unsafe blocks below: every pointer is either owned by `self` (alive, made by the library) or points to a
// value that outlives the call; the library copies what it keeps. Lists and texts that it lends are copied before they are
// given back.

fn c_path(path: &Path) -> Result<CString> {
    c_string(
        path.to_str()
            .with_context(|| format!("`{}` is not UTF-8, which OpenVINO needs", path.display()))?,
    )
}

/// A C object that is freed with its owner.
macro_rules! owned {
    ($name:ident, $raw:ident, $free:ident) => {
        pub(super) struct $name(NonNull<sys::$raw>);

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the pointer came from the library, and only this value frees it.
                unsafe { sys::$free(self.0.as_ptr()) }
            }
        }
    };
}

owned!(Model, ov_model_t, ov_model_free);
owned!(Compiled, ov_compiled_model_t, ov_compiled_model_free);
owned!(Request, ov_infer_request_t, ov_infer_request_free);
owned!(Port, ov_output_const_port_t, ov_output_const_port_free);
owned!(Blob, ov_tensor_t, ov_tensor_free);

/// How many properties are passed to a library that takes them as arguments.
const MOST_BY_VARARGS: usize = 6;

type CountOf = unsafe fn(*const sys::ov_compiled_model_t, *mut usize) -> Status;
type PortOf = unsafe fn(
    *const sys::ov_compiled_model_t,
    usize,
    *mut *mut sys::ov_output_const_port_t,
) -> Status;

impl Core {
    /// Reads an IR's two files, or an ONNX file when `weights` is None.
    pub(super) fn read(&self, model: &Path, weights: Option<&Path>) -> Result<Model> {
        let model = c_path(model)?;
        let weights = weights.map_or_else(|| c_string(""), c_path)?;
        Ok(Model(made(|out| unsafe {
            sys::ov_core_read_model(self.0.as_ptr(), model.as_ptr(), weights.as_ptr(), out)
        })?))
    }

    pub(super) fn compile(
        &self,
        model: &Model,
        device: &str,
        properties: &[(String, String)],
    ) -> Result<Compiled> {
        let device = c_string(device)?;
        let texts = properties
            .iter()
            .map(|(key, value)| Ok((c_string(key)?, c_string(value)?)))
            .collect::<Result<Vec<_>>>()?;
        let pairs: Vec<_> = texts
            .iter()
            .map(|(key, value)| sys::ov_property_t {
                key: key.as_ptr(),
                value: value.as_ptr().cast(),
            })
            .collect();
        if pairs.len() > MOST_BY_VARARGS && COMPILE_BY_VARARGS.get().is_some() {
            bail!(
                "{} properties are more than the {MOST_BY_VARARGS} that orch passes to OpenVINO before 2026",
                pairs.len()
            );
        }
        Ok(Compiled(made(|out| unsafe {
            let model = model.0.as_ptr();
            let device = device.as_ptr();
            if let Some(compile) = COMPILE_BY_VARARGS.get() {
                let given = pairs.iter().flat_map(|pair| [pair.key, pair.value.cast()]);
                let mut p = [null(); 2 * MOST_BY_VARARGS];
                p.iter_mut().zip(given).for_each(|(to, from)| *to = from);
                // The function reads as many as the count says.
                return compile(
                    self.0.as_ptr(),
                    model,
                    device,
                    2 * pairs.len(),
                    out,
                    p[0],
                    p[1],
                    p[2],
                    p[3],
                    p[4],
                    p[5],
                    p[6],
                    p[7],
                    p[8],
                    p[9],
                    p[10],
                    p[11],
                );
            }
            sys::ov_core_compile_model_props(
                self.0.as_ptr(),
                model,
                device,
                pairs.len(),
                pairs.as_ptr(),
                out,
            )
        })?))
    }
}

impl Model {
    pub(super) fn is_dynamic(&self) -> bool {
        unsafe { sys::ov_model_is_dynamic(self.0.as_ptr()) }
    }
}

impl Compiled {
    pub(super) fn property(&self, key: &str) -> Result<String> {
        let key = c_string(key)?;
        Ok(text(|value| unsafe {
            sys::ov_compiled_model_get_property(self.0.as_ptr(), key.as_ptr(), value)
        })?)
    }

    pub(super) fn inputs(&self) -> Result<Vec<Port>, Failure> {
        self.ports(
            sys::ov_compiled_model_inputs_size,
            sys::ov_compiled_model_input_by_index,
        )
    }

    pub(super) fn outputs(&self) -> Result<Vec<Port>, Failure> {
        self.ports(
            sys::ov_compiled_model_outputs_size,
            sys::ov_compiled_model_output_by_index,
        )
    }

    fn ports(&self, size: CountOf, by_index: PortOf) -> Result<Vec<Port>, Failure> {
        let mut count = 0;
        check(unsafe { size(self.0.as_ptr(), &mut count) })?;
        (0..count)
            .map(|at| made(|port| unsafe { by_index(self.0.as_ptr(), at, port) }).map(Port))
            .collect()
    }

    pub(super) fn input_named(&self, name: &str) -> Result<Port> {
        let name = c_string(name)?;
        Ok(Port(made(|port| unsafe {
            sys::ov_compiled_model_input_by_name(self.0.as_ptr(), name.as_ptr(), port)
        })?))
    }

    pub(super) fn output_named(&self, name: &str) -> Result<Port> {
        let name = c_string(name)?;
        Ok(Port(made(|port| unsafe {
            sys::ov_compiled_model_output_by_name(self.0.as_ptr(), name.as_ptr(), port)
        })?))
    }

    pub(super) fn request(&self) -> Result<Request, Failure> {
        made(|request| unsafe {
            sys::ov_compiled_model_create_infer_request(self.0.as_ptr(), request)
        })
        .map(Request)
    }
}

/// What one operator took.
pub(super) struct Counter {
    pub(super) name: String,
    pub(super) kind: String,
    /// The kernel that the device chose for it.
    pub(super) kernel: String,
    pub(super) ms: f64,
}

impl Port {
    /// One of the port's names; None when the model gives it none.
    pub(super) fn name(&self) -> Option<String> {
        text(|name| unsafe { sys::ov_port_get_any_name(self.0.as_ptr(), name) }).ok()
    }

    pub(super) fn element(&self) -> Result<Element> {
        let mut element = ElementType::DYNAMIC;
        check(unsafe { sys::ov_port_get_element_type(self.0.as_ptr(), &mut element) })?;
        element_of(element)
    }
}

impl Request {
    pub(super) fn set_input(&mut self, port: &Port, tensor: &Tensor) -> Result<()> {
        let blob = Blob::of(tensor)?;
        let request = self.0.as_ptr();
        let port = port.0.as_ptr();
        let blob = blob.0.as_ptr();
        Ok(check(unsafe {
            sys::ov_infer_request_set_tensor_by_const_port(request, port, blob)
        })?)
    }

    /// Returns when the outputs are there.
    pub(super) fn infer(&mut self) -> Result<(), Failure> {
        check(unsafe { sys::ov_infer_request_infer(self.0.as_ptr()) })
    }

    /// What the last inference executed, where the model was compiled with counters.
    pub(super) fn counters(&self) -> Result<Vec<Counter>, Failure> {
        let mut list = sys::ov_profiling_info_list_t {
            profiling_infos: null_mut(),
            size: 0,
        };
        check(unsafe { sys::ov_infer_request_get_profiling_info(self.0.as_ptr(), &mut list) })?;
        let word = |text: *const std::ffi::c_char| match text.is_null() {
            true => String::new(),
            false => unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned(),
        };
        let infos = match list.size {
            0 => &[][..],
            size => unsafe { std::slice::from_raw_parts(list.profiling_infos, size) },
        };
        let executed = infos
            .iter()
            .filter(|info| info.status == sys::ov_profiling_info_t_Status::EXECUTED);
        let counter = |info: &sys::ov_profiling_info_t| Counter {
            name: word(info.node_name),
            kind: word(info.node_type),
            kernel: word(info.exec_type),
            ms: info.real_time as f64 / 1e3,
        };
        let found = executed.map(counter).collect();
        unsafe { sys::ov_profiling_info_list_free(&mut list) };
        Ok(found)
    }

    pub(super) fn output(&self, port: &Port) -> Result<Tensor> {
        let request = self.0.as_ptr();
        let port = port.0.as_ptr();
        Blob(made(|blob| unsafe {
            sys::ov_infer_request_get_tensor_by_const_port(request, port, blob)
        })?)
        .copy()
    }
}

impl Blob {
    fn of(tensor: &Tensor) -> Result<Self> {
        let mut dims = tensor
            .shape()
            .iter()
            .map(|size| i64::try_from(*size))
            .collect::<Result<Vec<_>, _>>()?;
        // The struct is built by hand because ov_shape_create refuses scalars; the library reads it and keeps nothing.
        let shape = sys::ov_shape_t {
            rank: i64::try_from(dims.len())?,
            dims: dims.as_mut_ptr(),
        };
        let row = ELEMENTS
            .iter()
            .find(|row| row.0 == tensor.element())
            .expect("BUG: a type without a row in ELEMENTS");
        let blob = Self(made(|blob| unsafe {
            sys::ov_tensor_create(row.1, shape, blob)
        })?);
        unsafe { blob.memory()?.as_mut() }.copy_from_slice(tensor.bytes());
        Ok(blob)
    }

    fn copy(&self) -> Result<Tensor> {
        let mut element = ElementType::DYNAMIC;
        let mut shape = sys::ov_shape_t {
            rank: 0,
            dims: null_mut(),
        };
        let dims = unsafe {
            check(sys::ov_tensor_get_element_type(
                self.0.as_ptr(),
                &mut element,
            ))?;
            match check(sys::ov_tensor_get_shape(self.0.as_ptr(), &mut shape)) {
                // The C API has no shape without sizes: it refuses to make one, and says no more than that.
                Err(failure)
                    if failure.status == Status::INVALID_C_PARAM && self.holds_one()? => {}
                result => result?,
            }
            let rank = usize::try_from(shape.rank)?;
            let dims = if rank == 0 {
                Vec::new()
            } else {
                std::slice::from_raw_parts(shape.dims, rank).to_vec()
            };
            if rank > 0 {
                sys::ov_shape_free(&mut shape);
            }
            dims
        };
        let dims = dims
            .into_iter()
            .map(usize::try_from)
            .collect::<Result<Vec<_>, _>>()?;
        Tensor::new(
            element_of(element)?,
            dims,
            unsafe { self.memory()?.as_ref() }.to_vec(),
        )
    }

    fn holds_one(&self) -> Result<bool, Failure> {
        let mut count = 0;
        check(unsafe { sys::ov_tensor_get_size(self.0.as_ptr(), &mut count) })?;
        Ok(count == 1)
    }

    /// The tensor's own memory, valid as long as the blob.
    fn memory(&self) -> Result<NonNull<[u8]>> {
        let mut size = 0;
        let mut data = null_mut();
        unsafe {
            check(sys::ov_tensor_get_byte_size(self.0.as_ptr(), &mut size))?;
            if size > 0 {
                check(sys::ov_tensor_data(self.0.as_ptr(), &mut data))?;
            }
        }
        let data = if size > 0 {
            NonNull::new(data.cast())
        } else {
            Some(NonNull::dangling())
        };
        let data = data.with_context(|| format!("OpenVINO gave no memory for {size} bytes"))?;
        Ok(NonNull::slice_from_raw_parts(data, size))
    }
}

/// One row a type that both sides know.
const ELEMENTS: &[(Element, ElementType)] = &[
    (Element::Float64, ElementType::F64),
    (Element::Float32, ElementType::F32),
    (Element::Float16, ElementType::F16),
    (Element::Bfloat16, ElementType::BF16),
    (Element::Int64, ElementType::I64),
    (Element::Int32, ElementType::I32),
    (Element::Int16, ElementType::I16),
    (Element::Int8, ElementType::I8),
    (Element::Uint64, ElementType::U64),
    (Element::Uint32, ElementType::U32),
    (Element::Uint16, ElementType::U16),
    (Element::Uint8, ElementType::U8),
    (Element::Bool, ElementType::OV_BOOLEAN),
];

fn element_of(raw: ElementType) -> Result<Element> {
    match ELEMENTS.iter().find(|row| row.1 == raw) {
        Some(row) => Ok(row.0),
        None => {
            bail!("OpenVINO's element type {raw:?} has no counterpart in safetensors files here")
        }
    }
}
