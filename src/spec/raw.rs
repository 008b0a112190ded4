//! The shapes of a spec file, field by field, as users write them. Their comments are the text of `specs/schema.json`
//! and of the field reference in `docs/specs/fields.md`.
//!
//! Says what may stand where; whether names exist and values make sense is for `check`.

use std::sync::Arc;

use super::error::{Sink, Span};
use super::measure::{NoTimes, Timed};
use super::shape::{self, Field, Json, List, Rows, Shape, shape};
use super::values::{Config, Memory, Pair, Positions, Scalar, Size};
use super::words::{Convert, Weights};
use super::yaml::{Key, Node};
use super::{
    Compose, Element, ExpectedStage, ExpectedStatus, FaultCause, Half, Int8Range, Precision,
    Priority, Route,
};
use crate::catalogue::{Artefact, Runtime};
use crate::device::BackendRow;

shape! {
    /// A spec file. Top-level keys that begin with `x-` are ignored: a place for anchors.
    File {
        /// Version of the format: 1. Required in the file that is given to orch, optional in included ones.
        version: u32,
        /// Further spec files, relative to this one. Their rows come before this file's own.
        include: List<String>,
        /// What is tested: one row per model.
        models: Rows<Model>,
        /// What goes in and what comes out: one row per way of using a model.
        pipelines: Rows<Pipeline>,
        /// Targets, on which models are tested: one row per runtime and device.
        targets: Rows<Target>,
        /// Other versions of runtimes: one row per set of locks. `toolchains` of a target makes columns of them.
        toolchains: Rows<Toolchain>,
        /// How far outputs may be from the reference, per precision (`fp32`, `fp16`, `bf16`, `int8`, `int8-static`,
        /// `a16w8`, `int4`). What is not given keeps its default.
        tolerances: Rows<Tolerance>,
        /// How every run is measured, or `none`: it is checked and not timed. A target may say otherwise.
        measure: Timed,
        /// The models that meet each target. Without it, all meet all.
        matrix: Matrix,
        /// What `-t auto` chooses by until something was measured: for each family, names of `targets`, the best first; `any`
        /// is for families without a row of their own.
        prefer: Rows<List<String>>,
        /// How many parameters a model made from `class` may have. Default: as many as fit into half of the machine's
        /// memory in fp32.
        max_parameters: u64,
        /// Steps of your own.
        commands: Rows<Command>,
    }
}

shape! {
    /// One model. Exactly one of `class`, `onnx`, `openvino`, `torchscript`, `compose` says where it comes from.
    Model {
        /// Name of a class of the locked transformers, e.g. `BertForMaskedLM`; or of diffusers: `UNet2DModel`,
        /// `UNet2DConditionModel`, `DiTTransformer2DModel`, and `AutoencoderKL`, of which it is the decoder.
        class: String,
        /// A ready ONNX file, relative to this spec file.
        onnx: String,
        /// A ready OpenVINO IR (`.xml`; its `.bin` lies beside it), relative to this spec file.
        openvino: String,
        /// A ready TorchScript file, relative to this spec file.
        torchscript: String,
        /// A model of several, its `components`, and which loop calls them: `rag` retrieves documents and generates an answer;
        /// `ddpm`, `dit` and `stable-diffusion` take noise out of a picture, step by step.
        compose: Compose,
        /// Names of models made from `class`, by the parts that they play in what `compose` names: question, context and
        /// generator of `rag`; unet of `ddpm`; transformer and vae of `dit`; text_encoder, unet and vae of `stable-diffusion`.
        components: Rows<String>,
        /// Architecture family, for selection and for the report: `encoder-only`, `decoder-only`, `encoder-decoder`, `vision`,
        /// `vision-text`, `audio`, `multimodal`, `diffusion`, `mixture-of-experts`, `state-space`, `time-series` or `rag`. Of a
        /// ready file it is any word, and `other` unless it is given.
        family: String,
        /// What the model does, e.g. `fill-mask`: one of the tasks of its pipeline. Of a ready file it is the pipeline's first
        /// one unless it is given.
        task: String,
        /// Name of a row of `pipelines`. Of a ready file it is `tensors` unless it is given: tensors go in as they are, and of
        /// those that come out only what holds for every model is checked. It needs no row.
        pipeline: String,
        /// Words for selection.
        tags: List<String>,
        /// `high`, `medium` (the default) or `low`: for selection and for the order of the report.
        priority: Priority,
        /// The origin of the weights of a `class`: `seeded` (random from `seed`, offline; the default), `hub` (needs `hub.id` and
        /// `hub.revision`), or `path` (needs `path`).
        weights: Weights,
        /// The model's id on the Hugging Face Hub, for models with `class`. Only documentation for seeded weights.
        hub: Hub,
        /// The folder of `weights: path`, in `save_pretrained` layout, relative to this spec file. Its files count, but for what
        /// no loader reads: a README, weights in other formats, folders below it.
        path: String,
        /// Overrides of the class's default config, nested as in the config itself, for seeded weights; of the scheduler's for
        /// `compose`, with `guidance`, which is how far a picture follows its prompt.
        config: Config,
        /// Globs over weights of a hub or path checkpoint that the class does not use, e.g.
        /// `cls.seq_relationship.*`. Any other that it leaves unused is an error.
        unused_weights: List<String>,
        /// Globs over weights of the class that a hub or path checkpoint lacks, e.g. `wav2vec2.masked_spec_embed`,
        /// which is for training only. They become zeros, and it is an error if an output depends on them.
        missing_weights: List<String>,
        /// The number of parameters that a `class` may have, instead of the general `max_parameters`.
        max_parameters: u64,
        /// Whether transformers may execute Python code that comes with hub or path weights. Default: false.
        trust_remote_code: bool,
        /// Seed of the weights and of the inputs. Default: 0.
        seed: u64,
        /// Named sizes for input shapes. `batch` (default 1) and `seq` (default 16) need no declaration.
        dims: Rows<u64>,
        /// The example inputs by name, in the order of the model's signature; `{}` for a ready file that takes none.
        inputs: Rows<Input>,
        /// The inputs of a ready file instead of `inputs`: `.npz`, `.safetensors`, or a folder of `input_*.pb`.
        inputs_from: String,
        /// Files beside an `onnx` file in which it keeps its weights (external data). Those that the model names are found without
        /// being listed.
        external: List<String>,
        /// What the outputs of a ready file are compared with: `.npz`, `.safetensors`, or a folder of `output_*.pb`.
        /// Without it, ONNX Runtime's CPU provider makes the reference of an ONNX file; the others need it.
        expected: String,
        /// Names of the outputs to compare, in order; `feature_maps.0` is the first tensor of a tuple. Default: all
        /// tensors that the model returns, or, if it returns none, those of its tuples. An ONNX file gives no others
        /// then.
        outputs: List<String>,
        /// The way in which ONNX is made of a `class`.
        export: Export,
        /// Tolerances per precision of this model, on every target; figures that are not given keep their general value.
        tolerances: Rows<Tolerance>,
        /// `none`: its runs are checked and not timed, on every target.
        measure: NoTimes,
        /// How many sets of inputs `int8-static` and `a16w8` are calibrated on: made by the recipes of `inputs`, from
        /// other seeds than the inputs themselves. Default: 16.
        calibration_sets: u32,
        /// The number of tokens that a `class` also generates, greedily, with a cache where there is one, in the declared length:
        /// the first `length + 1 - generate` ids are the prompt. They must be PyTorch's own. Default: none.
        generate: u32,
        /// The positions of a text at which scores are computed and compared, of a `class` that takes `logits_to_keep`, e.g. `last 16`, as what serves such models computes them. Logits of long texts are gigabytes. Default: all.
        positions: Positions,
        /// How much main memory each step on it takes, e.g. `12 GiB`: kept free for it, instead of orch's estimate. No limit.
        memory: Memory,
        /// Making the model and its reference, and each conversion of it, is killed after this many seconds, without the time
        /// of downloads, which may take six hours. Default: 3600.
        timeout_seconds: u64,
    }
}

shape! {
    /// A place on the Hugging Face Hub.
    Hub {
        /// e.g. `google-bert/bert-base-uncased`
        id @required: String,
        /// The commit: 40 hexadecimal digits. Required for `weights: hub`; a branch or tag can move.
        revision: String,
    }
}

shape! {
    /// One input tensor. Exactly one of `randint`, `normal`, `uniform`, `value`, `arange`, `data`, `text`, `picture`, `sound` fills
    /// it.
    Input {
        /// Type of its elements.
        dtype @required: Element,
        /// Sizes: numbers, or names from `dims`.
        shape @required: List<Size>,
        /// `[low, high]`: random whole numbers, low inclusive, high exclusive.
        randint: Pair<i64>,
        /// `[mean, standard deviation]`: normally distributed random numbers.
        normal: Pair<f64>,
        /// `[low, high]`: evenly distributed random numbers, low inclusive, high exclusive.
        uniform: Pair<f64>,
        /// The same value everywhere.
        value: Scalar,
        /// `true`: 0, 1, 2, … along the last axis.
        arange: bool,
        /// All values in row-major order; as many as the shape holds.
        data: List<Scalar>,
        /// One string per batch row, tokenized by the tokenizer of hub or path weights and padded to the shape. For
        /// `input_ids` of a row without an `attention_mask`, the mask and what else the tokenizer makes are filled as well.
        /// In another `batch` or `seq` of a sweep texts are repeated.
        text: List<String>,
        /// PNG or JPEG files, relative to this spec file, of which the image processor of hub or path weights makes the input of
        /// this name, e.g. `pixel_values` or `pixel_mask`.
        picture: List<String>,
        /// WAV files (16-bit PCM, mono, at the model's sample rate), relative to this spec file, of which the feature extractor of
        /// hub or path weights makes the input of this name. `input_values` is padded or cut to the shape.
        sound: List<String>,
    }
}

shape! {
    /// How a class is exported to ONNX.
    Export {
        /// Exporters in the order of trial; the first whose file agrees with the reference is taken.
        /// Default: `[legacy, dynamo, transformers]`.
        routes: List<Route>,
        /// ONNX opset version. Default: 17.
        opset: u32,
        /// Whether functions of orch's may stand in for those of torch that the legacy exporter lacks or mistakes. With `false` the
        /// file is what a `torch.onnx.export` of one's own gives. Default: true.
        stand_ins: bool,
        /// Whether orch folds constants and writes operators that some device lacks by others. With `false` the file is published as
        /// the exporter wrote it, and compilers get it so. Default: true.
        rewrites: bool,
    }
}

shape! {
    /// A way of using models: `templates/pipelines/<template>.py.j2` holds its code.
    Pipeline {
        /// One line for people.
        description @required: String,
        /// The tasks of models that can use it.
        tasks @required: List<String>,
        /// Name of its template. Default: the pipeline's own name.
        template: String,
        /// Names of the outputs of tasks that give tokens (ids, codes, labels), held against the tolerance's `tokens`.
        tokens: Rows<List<String>>,
    }
}

shape! {
    /// A runtime on a device.
    Target {
        /// The runtime that runs it.
        runtime @required: &'static Runtime,
        /// The backend, whose prober says whether the hardware and its driver are present.
        backend @required: &'static BackendRow,
        /// The runtime's own name for the device, e.g. `CPU` for OpenVINO. Default: the backend's name.
        device: String,
        /// What it loads; `model` is the PyTorch model itself, `transformers-js` an ONNX model with a task to do.
        artefact @required: &'static Artefact,
        /// The precisions to test. Either this or `half`.
        precisions: List<Precision>,
        /// Instead of `precisions`: `auto` is half precision (fp16, or bf16 where the device computes in that) if a probe
        /// on the device shows it, and fp32 if not; `always` is half precision; `never` is fp32.
        half: Half,
        /// Options of the runtime, e.g. `soc_model` for QNN.
        options: Rows<Json>,
        /// What the machine must offer that runs it, e.g. `pool: xeon`: platform properties, asked of the executor's workers
        /// besides those of `[executor]`. Such a target never runs on this machine.
        properties: Rows<String>,
        /// The range of int8 weights, for `onnx` and for `openvino` at `int8-static`. `reduced` (the default): within
        /// ±64, so that no CPU saturates. `full`: all eight bits, for machines that have VNNI or are not x86: without
        /// it x86 CPUs add pairs of products in 16 bits.
        int8_range: Int8Range,
        /// Tolerances per precision on this target; figures that are not given keep their general value.
        tolerances: Rows<Tolerance>,
        /// How runs on this target are measured; what is not given keeps its general value. `none`: they are checked and not
        /// timed, which is the default of emulators and of software that stands for hardware; `samples`, `warmup` or
        /// `max_seconds` asks for times also there.
        measure: Timed,
        /// The toolchains that it runs with, each a column of its own: names of rows of `toolchains`, and `default` for orch's
        /// own locks, whose column has the target's name; the others are called `TARGET@TOOLCHAIN`. Default: `[default]`.
        toolchains: List<String>,
        /// Words for selection.
        tags: List<String>,
        /// How often a run that failed for a transient reason is retried. `orch run --retries` overrides it. Default:
        /// 0.
        retries: u32,
        /// Targets on which a case is run instead, in this order, when this one is missing or its run fails. The case
        /// is PASS_FALLBACK then, never PASS. `[]`: none, also under `orch run --fallback`.
        fallback: List<String>,
        /// Whether a case that exceeds the memory is run at half its batch size, and half of that, down to 1. It is
        /// PASS_FALLBACK then. Default: only under `orch run --fallback`.
        halve_batch: bool,
    }
}

shape! {
    /// Locks that stand in the place of orch's own in the columns that name them. `orch toolchain add` makes them.
    Toolchain {
        /// Files of pinned packages with hashes, relative to this spec file, by the environments that they are of, e.g.
        /// `ort: toolchains/ort-1.24/ort.txt`.
        locks @required: Rows<String>,
        /// What converts the artefacts that its runs load: `own` (the default) is the toolchain's converter, where its locks have
        /// one; `newest` is that of orch's own locks.
        convert: Convert,
    }
}

shape! {
    /// How far outputs `a` may be from the reference `b`; all bounds must hold.
    Tolerance {
        /// The absolute part of the bound of each value, |a − b| <= atol · scale + rtol · |b|. The scale is the typical |b|.
        atol: f64,
        /// See `atol`.
        rtol: f64,
        /// Share of the values that may be beyond that bound, though none by more than four times.
        budget: f64,
        /// Least cosine similarity, of the tensor and of the first percentile of the rows of its last axis.
        cosine: f64,
        /// Least signal to noise in decibels, of the tensor and of the first percentile of the rows of its last axis.
        snr: f64,
        /// Least share of equal places of an output of tokens (`pipelines` say which), and of the same rows.
        tokens: f64,
    }
}

shape! {
    /// How runs are measured.
    Measure {
        /// The least number of inferences before timing starts: warm-up continues until times are stable. Browsers, PyTorch in Python and phones take exactly so many. Default: 3.
        warmup: u32,
        /// Timed inferences of a round. Default: 30.
        samples: u32,
        /// How often each case is measured, each time in its own process. Default: 1; `orch bench`: 5.
        rounds: u32,
        /// So many seconds of a run may go into measuring again what is not quiet: each round at most twice. `orch run --remeasure` overrides it. Default: 10.
        remeasure_seconds: u64,
        /// Warming up and sampling each stop early after this many seconds, with at least one sample. Default: 10.
        max_seconds: f64,
        /// A run is killed after this many seconds. Default: 600.
        timeout_seconds: u64,
    }
}

shape! {
    /// The cases that exist: models × targets × precisions (× `batch` × `seq`), less `exclude`, plus `include`.
    Matrix {
        /// Globs over model names. Default: all.
        models: List<String>,
        /// Globs over target names. Default: all.
        targets: List<String>,
        /// Batch sizes, for models whose input shapes use `batch`. Default: each model's own.
        batch: List<u64>,
        /// Sequence lengths, for models whose input shapes use `seq`. Default: each model's own.
        seq: List<u64>,
        /// Cases to remove, each with its reason; they stay visible in the report.
        exclude: List<Rule>,
        /// Further cases, also of models, targets and precisions that the product does not name. Restores a case that
        /// `exclude` removed.
        include: List<Rule>,
        /// Cases that are known not to pass, each with its reason. The first rule that matches a case counts.
        expect: List<Expect>,
    }
}

shape! {
    /// Cases that are known not to pass. One that ends as expected is XFAIL, which does not fail the run; one that
    /// passes is XPASS, which does. `orch accept` brings these rules up to date.
    Expect {
        /// Glob over whole cases, e.g. `bert:cpu-fp32` or `*:openvino-*`.
        case: String,
        /// Glob over model names.
        model: String,
        /// Glob over families.
        family: String,
        /// Glob over target names.
        target: String,
        /// A precision.
        precision: Precision,
        /// How the cases end.
        status @required: ExpectedStatus,
        /// The stage at which they end this way. Default: any.
        stage: ExpectedStage,
        /// Why, in one sentence, e.g. with the address of an issue.
        reason @required: String,
        /// Since when, as `YYYY-MM-DD`: for people and for the report.
        since: String,
        /// The part that is at fault.
        cause: FaultCause,
        /// The address of the fault's public report, which every page links.
        url: String,
        /// Glob over the signature that `orch blame` gives these cases, e.g. `onnxruntime * | Pad_Fusion | *`. A case
        /// that fails by another one is not as expected.
        signature: String,
        /// Whether a case that passes anyway fails the run. Default: true.
        strict: bool,
    }
}

shape! {
    /// Matches cases: every field given must match; names are globs.
    Rule {
        /// Glob over model names.
        model: String,
        /// Glob over families.
        family: String,
        /// Glob over target names.
        target: String,
        /// A precision.
        precision: Precision,
        /// Why, in one sentence. Required for `exclude`.
        reason: String,
    }
}

shape! {
    /// A step of your own: a program that makes files from files, or files of fixed content. Exactly one of `argv` and
    /// `write` says which.
    Command {
        /// The program and its arguments; no shell.
        argv: List<Arc<str>>,
        /// Files that orch writes itself, without a program: their text by their path. They are the step's outputs, so
        /// nothing else may be given with it.
        write: Rows<String, Arc<str>>,
        /// What the program reads, by the name under which it finds it in its working directory.
        inputs: Rows<CommandInput, Arc<str>>,
        /// Files or folders, relative to its working directory, that the program makes. Required with `argv`.
        outputs: List<Arc<str>>,
        /// Names of environment variables that it sees. All others are hidden from it.
        env: List<Arc<str>>,
        /// It is killed after this many seconds. Default: 600.
        timeout_seconds: u64,
        /// Main memory that the program of `argv` takes, e.g. `4 GiB`: kept free for it, instead of orch's estimate. No limit.
        memory: Memory,
        /// The number of times that the program of `argv` is retried after a transient failure. `orch run --retries` overrides it.
        /// Default: 0.
        retries: u32,
        /// Exit codes by which the program of `argv` reports that another attempt may succeed, e.g. 75.
        transient: List<u32>,
        /// Whether the program of `argv` may open TCP connections, where the system can tell (Linux 6.7). Default: false.
        network: bool,
        /// Folders besides its own that the program of `argv` may write to, relative to this spec file, e.g. a compiler's cache.
        /// What it leaves there is in no key. Default: none.
        writable: List<Arc<str>>,
    }
}

shape! {
    /// Either a file or what another step made.
    CommandInput {
        /// A file or folder, relative to this spec file.
        file: String,
        /// A step's id, e.g. `convert:bert:onnx`.
        step: Arc<str>,
        /// Whether the program finds a link to each file of `step`, which it cannot change, in place of a copy. For files that
        /// are too large to copy each time, and programs that follow links. Default: false.
        lend: bool,
    }
}
