// What every page has that runs a model by ONNX Runtime Web: the way to orch, ONNX Runtime's own word on where nodes went,
// tensors as bytes, the device, and why something failed.

export const params = await (await fetch("params.json")).json();
export const facts = {};

export class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

const post = (where, body) => fetch(where, { method: "POST", body });
export const progress = (text) => post("progress", text);
const message = (error) => String(error?.message ?? error).replace(/\s+/g, " ").trim();

/// Ends the page's work where nobody waits for what failed: a promise that ONNX Runtime forgets, a device that is lost.
let fail;
const failed = new Promise((_, reject) => { fail = reject; });
failed.catch(() => {});
globalThis.onTrouble = fail;

// --- ONNX Runtime's log: its own word on where nodes went ---

const PLACED = /(?:All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d+)/;
const placement = {};
const elsewhere = [];
const partitions = {};
/// Nodes that the provider says it does not take, with its reason where it gives one.
const lacking = new Map();
let why = null;
let listed = null;
/// ONNX Runtime logged where the nodes are, so that no lines after this mean that there are none.
let placed_all = false;

/// Before the line that a node is not taken, WebNN's provider says what is wrong with a tensor of it.
function reasonIn(line) {
  const reason = /\[V:onnxruntime:[^\]]*\b(?:helper|\w+_op_builder)\.cc:\d+ \w+\] (.*)/.exec(line)?.[1].trim();
  if (!reason) return null;
  const dynamic = /^Dynamic shape is not supported\b.*: (.*)$/.exec(reason);
  if (dynamic) return `\`${dynamic[1]}\` has a dynamic shape`;
  const zero = /^The shape of \[(.*)\] has 0 dimension/.exec(reason);
  return zero ? `the shape of \`${zero[1]}\` has a zero` : reason;
}

function heard(line) {
  if (/VerifyEachNodeIsAssignedToAnEp\] Node placements/.test(line)) placed_all = true;
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
    lacking.set(`${missing[1]} \`${missing[2].trim()}\``, null);
  }
  // A part that it took already is a node by now, about which ONNX Runtime calls the provider again.
  const query = /Operator type: \[WEBNN_/.test(line) ? null : /Operator type: \[(\w+)\] index: \[\d+\] name: \[(.*)\] supported: \[([01])\]/.exec(line);
  if (query) {
    if (query[3] === "0") lacking.set(`${query[1]} \`${query[2]}\``, why);
    why = null;
  } else {
    why ??= reasonIn(line);
  }
  const taken = /(\w+)::GetCapability, number of partitions supported by \w+: (\d+) number of nodes in the graph: (\d+) number of nodes supported by \w+: (\d+)/.exec(line);
  if (taken) {
    Object.assign(partitions, { partitions: Number(taken[2]), nodes: Number(taken[3]), taken: Number(taken[4]) });
  }
}

const LOUD = /\[[EF]:onnxruntime|\[W:onnxruntime/;
const complaints = [];
export const volume = { lines: 0, heard: performance.now() };
const kept = console.warn.bind(console);
for (const level of ["log", "info", "warn", "error", "debug"]) {
  console[level] = (...words) => {
    volume.lines += 1;
    volume.heard = performance.now();
    for (const line of words.join(" ").split("\n")) {
      heard(line);
      if (LOUD.test(line) && complaints.length < 20) {
        complaints.push(line.replace(/\x1b\[[0-9;]*m/g, "").slice(0, 400));
        // What the browser itself writes stays in the step's log, also of a page that is ended from outside.
        kept(complaints.at(-1));
      }
    }
  };
}

// --- Tensors ---

const TYPES = {
  float64: Float64Array,
  float32: Float32Array,
  int64: BigInt64Array,
  int32: Int32Array,
  int16: Int16Array,
  int8: Int8Array,
  uint64: BigUint64Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

export function inputsOf(described, bytes) {
  return described.map(({ name, dtype, shape, offset, length }) => {
    const type = TYPES[dtype];
    if (!type) {
      throw new Refusal("unsupported", `ONNX Runtime Web has no tensors of type ${dtype} (input \`${name}\`)`);
    }
    // A copy begins at an address that suits every type.
    return { name, dtype, shape, data: new type(bytes.slice(offset, offset + length)) };
  });
}

export async function send(outputs) {
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

/// A device that is lost answers nothing any more, and no promise that waits for it is settled.
function watch(lost, what) {
  lost.then((info) => {
    if (info?.reason !== "destroyed") fail(new Refusal("crash", `${what} was lost while the page worked: ${message(info)}`));
  }, () => {});
}

export async function webgpu() {
  if (!navigator.gpu) {
    throw new Refusal("unavailable", "this browser has no WebGPU (navigator.gpu is missing)");
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) {
    throw new Refusal("unavailable", "WebGPU gives no adapter here");
  }
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await request.apply(this, args);
    watch(device.lost, "the WebGPU device");
    return device;
  };
  return { name: "webgpu" };
}

export async function webnn() {
  if (!navigator.ml) {
    throw new Refusal("unavailable", "this browser has no WebNN (navigator.ml is missing)");
  }
  const deviceType = params.device_type;
  try {
    const context = await navigator.ml.createContext({ deviceType });
    if (context.lost) watch(context.lost, "the WebNN context");
    return { name: "webnn", deviceType, context };
  } catch (error) {
    throw new Refusal("unavailable", `WebNN gives no ${deviceType} context here: ${message(error)}`);
  }
}

/// What executed, as read from the very device that ONNX Runtime used.
export async function used(ort) {
  if (params.provider !== "webgpu") {
    return {};
  }
  const device = await ort.env.webgpu.device;
  const { vendor, architecture, device: model, description, isFallbackAdapter } = device.adapterInfo;
  return { vendor, architecture, device: model, description, is_fallback_adapter: Boolean(isFallbackAdapter) };
}

// --- Why it failed ---

/// The browser's own refusal of a graph that ONNX Runtime made.
const isOfTheBrowser = (error, text) =>
  error?.name === "NotSupportedError" || /Failed to execute '\w+' on 'MLGraphBuilder'/.test(text);

function statusOf(error, text) {
  if (isOfTheBrowser(error, text)) return "unsupported";
  if (/Provider type for .* is not set|is not a registered function\/op|is not currently registered or supported/.test(text)) return "unsupported";
  if (/No Op registered for|WebNN backend does not support data type/.test(text)) return "unsupported";
  if (/fallback to CPU EP has been explicitly disabled|have not been partitioned to the/.test(text)) return "unsupported";
  if (/Could not find an implementation|not implemented|NOT_IMPLEMENTED|is not supported by/i.test(text)) return "unsupported";
  if (/out of memory|bad_alloc|Array buffer allocation failed|Failed to allocate memory/i.test(text)) return "oom";
  if (/device (is |was )?lost|Instance reference no longer exists|context is lost/i.test(text)) return "crash";
  return "error";
}

/// A session that the provider cannot take as a whole is refused; that of WebNN then never says so, but falls silent.
export async function refusedInSilence(patience_ms) {
  for (;;) {
    await new Promise((done) => setTimeout(done, 200));
    const silent = performance.now() - volume.heard > patience_ms;
    if (silent && partitions.taken < partitions.nodes) {
      throw new Refusal("unsupported", `it takes ${partitions.taken} of ${partitions.nodes} nodes, and no other provider may take the rest`);
    }
  }
}

// --- The run ---

/// As many inferences as are requested, in milliseconds each, with `atLeast` of them however long they take.
export async function repeat(infer, count, atLeast) {
  const until = performance.now() + params.measure.max_seconds * 1e3;
  const taken = [];
  while (taken.length < count && (taken.length < atLeast || performance.now() < until)) {
    taken.push((await infer())[0]);
  }
  return taken;
}

/// `a, b and 3 more`, as many as are read.
function some(items, most) {
  const rest = items.length - most;
  return rest > 0 ? `${items.slice(0, most).join(", ")} and ${rest} more` : items.join(", ");
}

/// Which nodes the provider leaves, by what is wrong with them. In the order of the graph: the first is the cause of the rest.
function left() {
  const groups = new Map();
  for (const [node, reason] of lacking) {
    groups.set(reason, [...(groups.get(reason) ?? []), node]);
  }
  const lacks = groups.get(null);
  groups.delete(null);
  const refused = [...groups].map(([reason, nodes]) => `${some(nodes, 3)} (${reason})`);
  const parts = [];
  if (refused.length > 0) parts.push(`does not take ${some(refused, 3)}`);
  if (lacks) parts.push(`has no kernel for ${some(lacks, 8)}`);
  if (lacking.values().next().value === null) parts.reverse();
  return `${params.provider_name} ${parts.join("; it ")}`;
}

/// Does the page's work and posts what came of it.
export async function answer(run) {
  let answer;
  try {
    answer = await Promise.race([run(), failed]);
  } catch (error) {
    let text = message(error);
    const status = error instanceof Refusal ? error.status : statusOf(error, text);
    // Of functions it has no kernel either, and takes what they are made of: then they are not why it failed.
    if (lacking.size > 0 && !isOfTheBrowser(error, text)) text = `${left()} (${text})`;
    answer = { status, reason: text };
  }
  await post("answer", JSON.stringify({ ...answer, facts, placement, placed_all, elsewhere: elsewhere.slice(0, 12), partitions, complaints }));
}
