import assert from "node:assert/strict";
import { test } from "node:test";
import { readReport } from "../src/data";
import { points, positive, secondsAt, smoothed } from "../src/series";

const run = readReport({ runs: [{ name: "a", metrics: { series: {
  loss: { step: [1, 2, 3], value: [3, null, 1] },
  seconds: { step: [1, 3], value: [10, 30] },
} } }] }).runs[0]!;

test("smoothing of a constant is the constant, from the first value on", () => {
  for (const value of smoothed([2, 2, null, 2], 0.9)) assert.ok(value === null || Math.abs(value - 2) < 1e-12);
  assert.deepEqual(smoothed([1, 2], 0), [1, 2]);
  assert.ok(Math.abs(smoothed([0, 1], 0.5)[1]! - 2 / 3) < 1e-12);
});

test("the time at a step lies between those of the lines around it", () => {
  assert.equal(secondsAt(run, 2), 20);
  assert.equal(secondsAt(run, 3), 30);
});

test("what is missing is a gap, and so is what a logarithmic axis cannot show", () => {
  const all = points(run, run.series.loss, "step");
  assert.deepEqual(all.map((point) => point.y), [3, NaN, 1]);
  assert.deepEqual(points(run, run.series.loss, "seconds").map((point) => point.x), [10, 20, 30]);
  assert.ok(Number.isNaN(positive([{ ...all[0]!, y: -1 }])[0]!.y));
});
