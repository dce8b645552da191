import assert from "node:assert/strict";
import { test } from "node:test";
import { readReport } from "../src/data";
import { differing } from "../src/texts";
import { capAt, kindOf } from "../src/weights";

test("data of any shape is read without an error", () => {
  for (const raw of [null, 3, [], "x", { runs: 3 }, { runs: [null, 3, { metrics: { series: { loss: 3 } }, certificate: [], attack: { points: [null] } }] },
    { sweeps: [{ columns: [{}], rows: [null, [1, 2]] }] }]) {
    assert.ok(readReport(raw).runs.length >= 0);
  }
});

test("a certificate is read with its layers, the logarithm of 0 as minus infinity", () => {
  const { certificate } = readReport({ runs: [{ certificate: {
    log10_lipschitz: 1, observed_lipschitz: null, weights: { sha256: "ab" }, layers: [{ name: "x", log10_lipschitz: null, log10_activation: 0.5, share: null }],
  } }] }).runs[0]!;
  assert.equal(certificate!.sha256, "ab");
  assert.equal(certificate!.layers[0]!.log10Lipschitz, -Infinity);
});

test("a picture that is not base64 is left out", () => {
  assert.equal(readReport({ runs: [{ attack_picture: '"><script>' }] }).runs[0]!.attackPicture, "");
  assert.equal(readReport({ runs: [{ attack_picture: "aGk=" }] }).runs[0]!.attackPicture, "aGk=");
});

test("caps are those of the metrics, or the recipe's where its method keeps one", () => {
  const runOf = (raw: object) => readReport({ runs: [raw] }).runs[0]!;
  const moved = runOf({ settings: { "constraint.sigma_max": "2" }, metrics: { of_weights: { caps: { w: { step: [1], value: [1.5] } } } } });
  assert.equal(capAt(moved, "w", 0), 1.5);
  assert.equal(capAt(moved, "other", 0), null);
  assert.equal(capAt(runOf({ settings: { "constraint.sigma_max": "2", "constraint.method": "soft_cap" } }), "w", 0), 2);
  assert.equal(capAt(runOf({ settings: { "constraint.sigma_max": "2", "constraint.method": "none" } }), "w", 0), null);
});

test("weights are known by their kind", () => {
  assert.equal(kindOf("model.layers.3.self_attn.q_proj.weight"), "q_proj");
  assert.equal(kindOf("model.layers.3.weight"), "layer");
  assert.equal(kindOf("lm_head.weight"), "lm_head");
});

test("settings that differ are found", () => {
  const { runs } = readReport({ runs: [{ settings: { a: "1", b: "2" } }, { settings: { a: "1", b: "3", c: "4" } }] });
  assert.deepEqual([...differing(runs)], ["b", "c"]);
});
