import assert from "node:assert/strict";
import { test } from "node:test";
import { logTicks } from "../src/lines";

test("a logarithmic axis has a few ticks over any range", () => {
  assert.deepEqual(logTicks(1.8, 3), [2, 2.5, 3]);
  assert.deepEqual(logTicks(0.02, 20), [0.1, 1, 10]);
  assert.deepEqual(logTicks(1, 60), [1, 2, 5, 10, 20, 50]);
  assert.deepEqual(logTicks(2, 2), [2]);
  for (const [low, high] of [[1e-30, 1e30], [0.999, 1.001], [3, 31]] as const) {
    const ticks = logTicks(low, high);
    assert.ok(ticks.length >= 2 && ticks.length <= 10, `${low} to ${high}: ${ticks}`);
  }
});
