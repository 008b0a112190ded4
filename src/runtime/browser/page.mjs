// Runs one model in the browser, on one execution provider of ONNX Runtime Web or not at all, and posts what came of it.
//
// `params.json`: {provider, device_type, model, external: [name], inputs: [{name, dtype, shape, offset, length}],
// free_dimensions, measure, optimisation}. The answer is {status, reason, facts, measure, outputs}; outputs are
// posted before it as one block of bytes. Which numbers are right is not decided here.

const params = await (await fetch("params.json")).json();
const facts = {};

class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

const post = (where, body) => fetch(where, { method: "POST", body });
const progress = (text) => post("progress", text);
const message = (error) => String(error?.message ?? error).replace(/\s+/g, " ").trim();

// --- ONNX Runtime's log: its own word on where nodes went ---

const PLACED = /(?:All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d+)/;
const placement = {};
const elsewhere = [];
const partitions = {};
/// Nodes for which the provider says that it has no kernel.
const lacking = new Set();
let listed = null;

function heard(line) {
  const placed = PLACED.exec(line);
  if (placed) {
    placement[placed[1]] = (placement[placed[1]] ?? 0) + Number(placed[2]);
    listed = placed[1];
    return;
  }
  // After such a line the nodes follow, each on a line of its own: `   MatMul (/encoder/MatMul)`.
  const node = /VerifyEachNodeIsAssignedToAnEp\]\s+(\w+) \((.*)\)/.exec(line);
  if (node && listed && listed !== params.provider_name) {
    elsewhere.push(`${node[1]} \`${node[2]}\``);
  }
  const missing = /kernel not found in registries for Op type: (\w+) node name: (.*)/.exec(line);
  if (missing) {
    lacking.add(`${missing[1]} \`${missing[2].trim()}\``);
  }
  const refused = /Operator type: \[(\w+)\] index: \[\d+\] name: \[(.*)\] supported: \[0\]/.exec(line);
  if (refused) {
    lacking.add(`${refused[1]} \`${refused[2]}\``);
  }
  const taken = /(\w+)::GetCapability, number of partitions supported by \w+: (\d+) number of nodes in the graph: (\d+) number of nodes supported by \w+: (\d+)/.exec(line);
  if (taken) {
    Object.assign(partitions, { partitions: Number(taken[2]), nodes: Number(taken[3]), taken: Number(taken[4]) });
  }
}

const LOUD = /\[[EF]:onnxruntime|\[W:onnxruntime/;
const complaints = [];
const volume = { lines: 0, heard: performance.now() };
for (const level of ["log", "info", "warn", "error", "debug"]) {
  console[level] = (...words) => {
    volume.lines += 1;
    volume.heard = performance.now();
    for (const line of words.join(" ").split("\n")) {
      heard(line);
      if (LOUD.test(line) && complaints.length < 20) {
        complaints.push(line.replace(/\x1b\[[0-9;]*m/g, "").slice(0, 400));
      }
    }
  };
}

// --- Tensors ---

const TYPES = {
  float32: Float32Array,
  int64: BigInt64Array,
  int32: Int32Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

function inputsOf(bytes) {
  return params.inputs.map(({ name, dtype, shape, offset, length }) => {
    const type = TYPES[dtype];
    if (!type) {
      throw new Refusal("unsupported", `ONNX Runtime Web has no tensors of type ${dtype} (input \`${name}\`)`);
    }
    // A copy begins at an address that suits every type.
    return { name, dtype, shape, data: new type(bytes.slice(offset, offset + length)) };
  });
}

/// Inputs in the page's memory: the provider copies them in each inference.
function onHost(ort, inputs) {
  const feeds = Object.fromEntries(inputs.map(({ name, dtype, shape, data }) => [name, new ort.Tensor(dtype, data, shape)]));
  return { feeds, write: () => {} };
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
  return { feeds, write };
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

async function send(outputs) {
  const parts = [];
  const described = outputs.map(({ name, type, dims, data }) => {
    if (!TYPES[type]) {
      throw new Refusal("unsupported", `the output \`${name}\` has the type ${type}, which orch does not handle`);
    }
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return { name, dtype: type, shape: [...dims], length: data.byteLength };
  });
  await post("outputs", new Blob(parts));
  return described;
}

// --- The device ---

async function webgpu() {
  if (!navigator.gpu) {
    throw new Refusal("unavailable", "this browser has no WebGPU (navigator.gpu is missing)");
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) {
    throw new Refusal("unavailable", "WebGPU gives no adapter here");
  }
  return { name: "webgpu" };
}

async function webnn() {
  if (!navigator.ml) {
    throw new Refusal("unavailable", "this browser has no WebNN (navigator.ml is missing)");
  }
  const deviceType = params.device_type;
  try {
    const context = await navigator.ml.createContext({ deviceType });
    return { name: "webnn", deviceType, context };
  } catch (error) {
    throw new Refusal("unavailable", `WebNN gives no ${deviceType} context here: ${message(error)}`);
  }
}

/// What executed: asked of the very device that ONNX Runtime used.
async function used(ort) {
  if (params.provider !== "webgpu") {
    return {};
  }
  const device = await ort.env.webgpu.device;
  const { vendor, architecture, device: model, description, isFallbackAdapter } = device.adapterInfo;
  return { vendor, architecture, device: model, description, is_fallback_adapter: Boolean(isFallbackAdapter) };
}

// --- Why it failed ---

function statusOf(text) {
  if (/fallback to CPU EP has been explicitly disabled|have not been partitioned to the/.test(text)) return "unsupported";
  if (/Could not find an implementation|not implemented|NOT_IMPLEMENTED|is not supported by/i.test(text)) return "unsupported";
  if (/out of memory|bad_alloc|Array buffer allocation failed|Failed to allocate memory/i.test(text)) return "oom";
  if (/device (is |was )?lost|Instance reference no longer exists|context is lost/i.test(text)) return "crash";
  return "error";
}

/// A session that the provider cannot take as a whole is refused; that of WebNN then never says so, but falls silent.
async function refusedInSilence(patience_ms) {
  for (;;) {
    await new Promise((done) => setTimeout(done, 200));
    const silent = performance.now() - volume.heard > patience_ms;
    if (silent && partitions.taken < partitions.nodes) {
      throw new Refusal("unsupported", `it takes ${partitions.taken} of ${partitions.nodes} nodes, and no other provider may take the rest`);
    }
  }
}

// --- The run ---

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
    externalData: params.external.map((path) => ({ path, data: `files/model/${path}` })),
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

  const inputs = inputsOf(bytes);
  const given = inputs.map((input) => input.name).sort().join(", ");
  const wanted = [...session.inputNames].sort().join(", ");
  if (given !== wanted) {
    throw new Refusal("error", `the model takes the inputs ${wanted}, and inputs.safetensors holds ${given}`);
  }
  const { feeds, write } = capture ? await onDevice(ort, inputs) : onHost(ort, inputs);
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
  const repeat = async (count, atLeast) => {
    const until = clock() + params.measure.max_seconds * 1e3;
    const taken = [];
    while (taken.length < count && (taken.length < atLeast || clock() < until)) {
      taken.push((await infer())[0]);
    }
    return taken;
  };
  await progress("warm-up");
  const warmup_ms = await repeat(params.measure.warmup, 0);
  if (capture) {
    facts.spoilt_outputs = await spoil(ort, raw);
    const [, again] = await infer();
    facts.replay = same(first, again) ? "gives the bytes of the first inference" : "differs from the first inference";
  }
  await progress("samples");
  const samples_ms = await repeat(params.measure.samples, 1);
  facts.log_lines = volume.lines;
  const outputs = await send(first);
  return { status: "ok", outputs, measure: { load_ms, first_ms, warmup_ms, samples_ms } };
}

let answer;
try {
  answer = await run();
} catch (error) {
  let text = message(error);
  if (lacking.size > 0) {
    text = `${params.provider_name} has no kernel for ${[...lacking].slice(0, 8).join(", ")} (${text})`;
  }
  answer = { status: error instanceof Refusal ? error.status : statusOf(text), reason: text };
}
await post("answer", JSON.stringify({ ...answer, facts, placement, elsewhere: elsewhere.slice(0, 12), partitions, complaints }));
