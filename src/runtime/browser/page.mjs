// Runs one model in the browser, on one execution provider of ONNX Runtime Web or not at all, and posts what came of it.
//
// `params.json`: {provider, device_type, model, external: [name], inputs: [{name, dtype, shape, offset, length}],
// free_dimensions, measure, optimisation}; without `measure` it infers once, and takes no times. The answer is {status, reason, facts, measure, outputs}; outputs are
// posted before it as one block of bytes. Which numbers are right is not decided here.

import {
  Refusal, answer, facts, inputsOf, params, progress, refusedInSilence, repeat, send, used, volume, webgpu, webnn,
} from "./files/common.mjs";

/// Inputs in the page's memory: the provider copies them in each inference.
function onHost(ort, inputs) {
  const feeds = {};
  const set = (inputs) => inputs.forEach(({ name, dtype, shape, data }) => { feeds[name] = new ort.Tensor(dtype, data, shape); });
  set(inputs);
  return { feeds, set, write: () => {} };
}

/// Inputs in buffers of the device, written anew for each inference. Without this there is no int64 on WebGPU: the
/// provider has it only where it captures the graph, and then all inputs and outputs are buffers.
async function onDevice(ort, inputs) {
  const device = await ort.env.webgpu.device;
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const buffers = inputs.map(({ name, dtype, shape, data }) => {
    const size = Math.max(16, Math.ceil(data.byteLength / 16) * 16);
    const bytes = new Uint8Array(size);
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    const gpuBuffer = device.createBuffer({ size, usage });
    return { name, bytes, gpuBuffer, tensor: ort.Tensor.fromGpuBuffer(gpuBuffer, { dataType: dtype, dims: shape }) };
  });
  const feeds = Object.fromEntries(buffers.map(({ name, tensor }) => [name, tensor]));
  const write = () => buffers.forEach(({ bytes, gpuBuffer }) => device.queue.writeBuffer(gpuBuffer, 0, bytes));
  // The captured graph reads these very buffers.
  const set = (inputs) => inputs.forEach(({ name, data }) => {
    const { bytes } = buffers.find((buffer) => buffer.name === name);
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  });
  return { feeds, set, write };
}

/// The outputs, in the page's memory. Reading them is what waits for the device.
async function fetched(session, outputs) {
  const read = async (name) => {
    const tensor = outputs[name];
    const data = tensor.location === "cpu" ? tensor.data : await tensor.getData();
    return { name, type: tensor.type, dims: tensor.dims, data };
  };
  return Promise.all(session.outputNames.map(read));
}

/// Fills the outputs' buffers with nonsense, so that an inference that does nothing is seen to do nothing.
async function spoil(ort, outputs) {
  const device = await ort.env.webgpu.device;
  let spoilt = 0;
  for (const tensor of Object.values(outputs)) {
    if (tensor.location === "gpu-buffer" && tensor.gpuBuffer.usage & GPUBufferUsage.COPY_DST) {
      device.queue.writeBuffer(tensor.gpuBuffer, 0, new Uint8Array(tensor.gpuBuffer.size).fill(0xff));
      spoilt += 1;
    }
  }
  return spoilt;
}

const same = (one, other) => one.every(({ data }, index) => {
  const [a, b] = [data, other[index].data].map((d) => new Uint8Array(d.buffer, d.byteOffset, d.byteLength));
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
});

async function run() {
  const clock = () => performance.now();
  const begun = clock();
  const ort = await import(`./files/ort/${params.bundle}`);
  ort.env.wasm.wasmPaths = new URL("files/ort/", location.href).href;
  // More threads would only run what no node of the model needs; one is the same everywhere.
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "verbose";
  const provider = params.provider === "webgpu" ? await webgpu() : await webnn();
  const bytes = await (await fetch("files/inputs")).arrayBuffer();
  facts.versions = { "onnxruntime-web": ort.env.versions.web };
  facts.cross_origin_isolated = globalThis.crossOriginIsolated;
  facts.prepare_ms = clock() - begun;

  await progress("load");
  const options = {
    executionProviders: [provider],
    graphOptimizationLevel: params.optimisation,
    freeDimensionOverrides: params.free_dimensions,
    logSeverityLevel: 0,
    externalData: params.external.map((path, at) => ({ path, data: `files/external/${at}` })),
    extra: {
      session: { disable_cpu_ep_fallback: "1" },
      optimization: { disable_specified_optimizers: params.without_fusions.join(";") },
    },
  };
  const capture = params.provider === "webgpu";
  if (capture) {
    // Asks for a graph that lies on the device as a whole, and so for int64 too.
    Object.assign(options, { enableGraphCapture: true, preferredOutputLocation: "gpu-buffer" });
  }
  facts.graph_capture = capture;
  const loadBegun = clock();
  const session = await Promise.race([
    ort.InferenceSession.create(`files/model/${params.model}`, options),
    refusedInSilence(3000),
  ]);
  volume.heard = Infinity;
  const load_ms = clock() - loadBegun;
  facts.adapter = await used(ort);

  const inputs = inputsOf(params.inputs, bytes);
  const given = inputs.map((input) => input.name).sort().join(", ");
  const wanted = [...session.inputNames].sort().join(", ");
  if (given !== wanted) {
    throw new Refusal("error", `the model takes the inputs ${wanted}, and inputs.safetensors holds ${given}`);
  }
  const { feeds, set, write } = capture ? await onDevice(ort, inputs) : onHost(ort, inputs);
  const quiet = { logSeverityLevel: 3 };
  let raw;
  const infer = async () => {
    const start = clock();
    write();
    raw = await session.run(feeds, quiet);
    const outputs = await fetched(session, raw);
    return [clock() - start, outputs];
  };
  await progress("first inference");
  const [first_ms, first] = await infer();
  let times;
  if (params.measure) {
    await progress("warm-up");
    const warmup_ms = await repeat(infer, params.measure.warmup, 0);
    if (capture) {
      facts.spoilt_outputs = await spoil(ort, raw);
      const [, again] = await infer();
      facts.replay = same(first, again) ? "gives the bytes of the first inference" : "differs from the first inference";
    }
    await progress("samples");
    times = { load_ms, first_ms, warmup_ms, samples_ms: await repeat(infer, params.measure.samples, 1) };
  }
  facts.log_lines = volume.lines;
  let control = [];
  if (params.control) {
    await progress("control");
    set(inputsOf(params.control, await (await fetch("files/control")).arrayBuffer()));
    [, control] = await infer();
  }
  const sent = await send([...first, ...control]);
  const outputs = sent.slice(0, first.length);
  const control_outputs = params.control ? sent.slice(first.length) : null;
  return { status: "ok", outputs, control_outputs, measure: times };
}

await answer(run);
