// Perfetto's own trace processor (WebAssembly) reads a trace and answers SQL. Knows nothing of orch.
//
// node query.mjs FOLDER TRACE SQL…   FOLDER has engine_bundle.js; a line of JSON for each query: its rows, as lists.

import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [folder, trace, ...queries] = process.argv.slice(2);

// The engine is made for a browser's worker: this much of one it asks for.
class XMLHttpRequest {
  open(_method, url) {
    this.url = url;
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(folder, path.basename(this.url)))).buffer;
  }
}
const silent = { log() {}, info() {}, warn() {}, error: console.error };
const location = { href: "http://localhost/" };
const worker = { console: silent, XMLHttpRequest, TextDecoder, TextEncoder, URL, performance, setTimeout, clearTimeout, location };
worker.WorkerGlobalScope = class {};
worker.self = worker;
vm.createContext(worker);
vm.runInContext("self.Bytes = Uint8Array", worker);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
await new Promise((done) => setTimeout(done, 0));

const replies = [];
const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
worker.onmessage({ data: port });

// Protocol buffers, for the few fields that are needed of `TraceProcessorRpc` (perfetto, trace_processor.proto).
function varint(value) {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return Buffer.from([...out, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function reader(buffer) {
  let at = 0;
  const take = (size) => buffer.subarray(at, (at += size));
  const int = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  return { take, int, more: () => at < buffer.length };
}
function fields(buffer) {
  const { take, int, more } = reader(buffer);
  const out = [];
  while (more()) {
    const tag = int();
    const read = { 0: int, 1: () => take(8), 2: () => take(int()), 5: () => take(4) }[tag & 7];
    out.push([tag >> 3, read()]);
  }
  return out;
}
const all = (buffer, field) => fields(buffer).filter(([at]) => at === field).map(([, value]) => value);
function ints(lists) {
  const { int, more } = reader(Buffer.concat(lists));
  const out = [];
  while (more()) out.push(int());
  return out;
}

let turn = 0;
/** The messages that answer one request. */
function call(request, ...args) {
  const message = Buffer.concat([number(1, turn++), number(2, request), ...args]);
  port.onmessage({ data: new worker.Bytes(bytes(1, message)) });
  const answers = replies.splice(0).flatMap((stream) => all(stream, 1));
  const fatal = answers.flatMap((answer) => all(answer, 5));
  if (fatal.length > 0) throw new Error(fatal.join("\n"));
  return answers;
}

const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
for (const answer of call(APPEND, bytes(101, fs.readFileSync(trace)))) {
  for (const error of all(answer, 201).flatMap((result) => all(result, 2))) throw new Error(error.toString());
}
call(FINALIZE);
for (const sql of queries) {
  const results = call(QUERY, bytes(103, bytes(1, Buffer.from(sql)))).flatMap((answer) => all(answer, 203));
  for (const error of results.flatMap((result) => all(result, 2))) throw new Error(`${sql}: ${error}`);
  const width = results.flatMap((result) => all(result, 1)).length;
  const cells = results.flatMap((result) => all(result, 3)).flatMap((batch) => {
    const whole = ints(all(batch, 2));
    const floats = Buffer.concat(all(batch, 3));
    const texts = Buffer.concat(all(batch, 5)).toString().split("\0");
    let float = 0;
    const of = { 1: () => null, 2: () => whole.shift(), 3: () => floats.readDoubleLE(8 * float++), 4: () => texts.shift() };
    return ints(all(batch, 1)).map((kind) => of[kind]());
  });
  const rows = [];
  while (cells.length > 0) rows.push(cells.splice(0, width));
  console.log(JSON.stringify(rows));
}
