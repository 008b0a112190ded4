// Asks the browser for what a model would need, and uses it once: an adapter and its device, or a context and one sum.

const { api } = await (await fetch("params.json")).json();
const message = (error) => `${error?.name ?? "Error"}: ${error?.message ?? error}`.replace(/\s+/g, " ").slice(0, 300);

async function webgpu() {
  if (!navigator.gpu) return { error: "it has no WebGPU (navigator.gpu is missing)" };
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return { error: "requestAdapter gives null" };
  const device = await adapter.requestDevice();
  const { vendor, architecture, description, isFallbackAdapter } = adapter.info;
  const features = [...adapter.features].filter((name) => name === "shader-f16" || name === "subgroups");
  device.destroy();
  return { vendor, architecture, description, is_fallback_adapter: Boolean(isFallbackAdapter), features };
}

async function sum(deviceType) {
  const context = await navigator.ml.createContext({ deviceType });
  const builder = new MLGraphBuilder(context);
  const described = { dataType: "float32", shape: [4] };
  const graph = await builder.build({ y: builder.add(builder.input("a", described), builder.input("b", described)) });
  const [a, b] = await Promise.all([0, 1].map(() => context.createTensor({ ...described, writable: true })));
  const y = await context.createTensor({ ...described, readable: true });
  context.writeTensor(a, new Float32Array([1, 2, 3, 4]));
  context.writeTensor(b, new Float32Array([10, 20, 30, 40]));
  context.dispatch(graph, { a, b }, { y });
  const got = [...new Float32Array(await context.readTensor(y))].join(" ");
  return got === "11 22 33 44" ? "ran" : `a sum came out as ${got}`;
}

async function webnn() {
  if (!navigator.ml) return { error: "it has no WebNN (navigator.ml is missing)" };
  const answer = {};
  for (const deviceType of ["cpu", "gpu", "npu"]) {
    answer[deviceType] = await sum(deviceType).catch(message);
  }
  return answer;
}

const answer = await (api === "webgpu" ? webgpu() : webnn()).catch((error) => ({ error: message(error) }));
await fetch("answer", { method: "POST", body: JSON.stringify(answer) });
