// node run.mjs PACKAGES FOLDER…: runs model.onnx of every folder on the inputs of examples.safetensors beside it, and prints the
// largest difference from its logits, of any logit, as JSON. PACKAGES holds node_modules with onnxruntime-web.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [packages, ...folders] = process.argv.slice(2);
const ort = createRequire(path.join(packages, "package.json"))("onnxruntime-web");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

function readSafetensors(file) {
  const data = fs.readFileSync(file);
  const length = Number(data.readBigUInt64LE(0));
  const header = JSON.parse(data.subarray(8, 8 + length).toString());
  const arrays = { F32: Float32Array, F64: Float64Array, I64: BigInt64Array };
  const tensors = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [begin, end] = entry.data_offsets.map((offset) => 8 + length + offset);
    const bytes = new Uint8Array(data.subarray(begin, end)); // a copy, so that it is aligned
    tensors[name] = { dims: entry.shape, values: new arrays[entry.dtype](bytes.buffer) };
  }
  return tensors;
}

const results = [];
for (const folder of folders) {
  const { inputs, logits } = readSafetensors(path.join(folder, "examples.safetensors"));
  const session = await ort.InferenceSession.create(fs.readFileSync(path.join(folder, "model.onnx")), {
    executionProviders: ["wasm"],
  });
  const type = inputs.values instanceof BigInt64Array ? "int64" : "float32";
  const [name] = session.inputNames;
  const result = await session.run({ [name]: new ort.Tensor(type, inputs.values, inputs.dims) });
  const found = result.logits;
  const same = JSON.stringify(found.dims.map(Number)) === JSON.stringify(logits.dims);
  let difference = same ? 0 : Infinity;
  let largest = 0;
  for (let i = 0; same && i < logits.values.length; ++i) {
    const off = Math.abs(found.data[i] - logits.values[i]);
    if (!(off <= difference)) difference = off; // NaN too
    largest = Math.max(largest, Math.abs(logits.values[i]));
  }
  results.push({ folder, difference: Number.isFinite(difference) ? difference : String(difference), largest });
}
console.log(JSON.stringify(results));
