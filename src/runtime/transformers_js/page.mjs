// Lets Transformers.js do one task, on one device or not at all, and posts what came of it.
//
// `params.json`: {task, call, labels, device, provider, provider_name, device_type, script, inputs: [{name, dtype, shape,
// offset, length}], free_dimensions, session, measure}; without `measure` it does the task once, and takes no times. The answer is as in `browser/common.mjs`. What is timed is the whole
// call of the pipeline. What comes before the model is requested once more, outside of it, and is an output of its own.

import {
  Refusal, answer, facts, inputsOf, params, progress, refusedInSilence, repeat, send, used, volume, webgpu, webnn,
} from "./files/common.mjs";

/// Texts and images as the pipeline takes them.
function given(RawImage, [{ name, shape, data }]) {
  const [rows, ...size] = shape;
  const length = size.reduce((product, each) => product * each, 1);
  const each = (make) => Array.from({ length: rows }, (_, row) => make(data.slice(row * length, (row + 1) * length)));
  if (name === "text") {
    return each((bytes) => new TextDecoder().decode(bytes).replace(/\0+$/, ""));
  }
  const [height, width, channels] = size;
  return each((bytes) => new RawImage(Uint8ClampedArray.from(bytes), width, height, channels));
}

/// What the model is given: by the pipeline's own tokenizer or image processor, as the pipeline asks it.
async function prepared(doer, input) {
  if (params.task === "image-classification") {
    const { pixel_values } = await doer.processor(input);
    return { name: "pixel_values", type: "float32", dims: pixel_values.dims, data: pixel_values.data };
  }
  const { input_ids } = doer.tokenizer(input, { padding: true, truncation: true });
  return { name: "input_ids", type: "int64", dims: input_ids.dims, data: input_ids.data };
}

/// A task's result as one tensor. Scores come by class or token, the best first; they lie by number here.
function tensorOf(result, rows) {
  if (params.task === "feature-extraction") {
    return { name: "embedding", type: result.type, dims: result.dims, data: result.data };
  }
  const count = params.call.top_k;
  const data = new Float32Array(rows * count).fill(NaN);
  // One text gives its scores as they are, several give a list of them.
  const lists = Array.isArray(result[0]) ? result : [result];
  const places = new Map((params.labels ?? []).map((label, place) => [label, place]));
  lists.forEach((list, row) => {
    for (const { score, token, label } of list) {
      const place = params.labels ? places.get(label) : token;
      if (!(place >= 0 && place < count)) {
        throw new Refusal("error", `Transformers.js names ${label ?? token}, which the model does not have`);
      }
      data[row * count + place] = score;
    }
  });
  return { name: "scores", type: "float32", dims: [lists.length, count], data };
}

async function run() {
  const clock = () => performance.now();
  const begun = clock();
  const ort = await import("onnxruntime-web/webgpu");
  const { env, pipeline, RawImage } = await import(`./files/transformers/${params.script}`);
  const at = (path) => new URL(`files/${path}`, location.href);
  // The same object as Transformers.js's own, because the page has one module of this name.
  ort.env.wasm.wasmPaths = at("ort/").href;
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "verbose";
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: at("").pathname });
  Object.assign(env, { useBrowserCache: false, useWasmCache: false });
  if (params.provider === "webgpu") await webgpu();
  if (params.provider === "webnn") await webnn();
  const inputs = inputsOf(params.inputs, await (await fetch("files/inputs")).arrayBuffer());
  const input = given(RawImage, inputs);
  facts.versions = { "transformers.js": env.version, "onnxruntime-web": ort.env.versions.web };
  facts.cross_origin_isolated = globalThis.crossOriginIsolated;
  facts.prepare_ms = clock() - begun;

  await progress("load");
  const loadBegun = clock();
  const doer = await Promise.race([
    pipeline(params.task, "model", {
      device: params.device,
      dtype: "fp32",
      local_files_only: true,
      session_options: { ...params.session, freeDimensionOverrides: params.free_dimensions },
    }),
    refusedInSilence(3000),
  ]);
  volume.heard = Infinity;
  const load_ms = clock() - loadBegun;
  facts.adapter = await used(ort);
  facts.sessions = Object.fromEntries(Object.entries(doer.model.sessions).map(([name, { config }]) => [name, config]));
  for (const [name, { device }] of Object.entries(facts.sessions)) {
    if (device !== params.device) {
      throw new Refusal("error", `the session \`${name}\` was asked for ${params.device} and is on ${device}`);
    }
  }
  // Sessions have to tell where nodes went, and would go on telling while the clock runs.
  for (const session of Object.values(doer.model.sessions)) {
    const run = session.run.bind(session);
    session.run = (feeds) => run(feeds, { logSeverityLevel: 3 });
  }

  const infer = async () => {
    const start = clock();
    const result = await doer(input, params.call);
    return [clock() - start, result];
  };
  await progress("first call");
  const [first_ms, first] = await infer();
  let times;
  if (params.measure) {
    await progress("warm-up");
    const warmup_ms = await repeat(infer, params.measure.warmup, 0);
    await progress("samples");
    const before = volume.lines;
    times = { load_ms, first_ms, warmup_ms, samples_ms: await repeat(infer, params.measure.samples, 1) };
    facts.log_lines_while_timed = volume.lines - before;
  }
  const outputs = await send([await prepared(doer, input), tensorOf(first, input.length)]);
  return { status: "ok", outputs, measure: times };
}

await answer(run);
