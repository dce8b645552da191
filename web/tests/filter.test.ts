import assert from "node:assert/strict";
import { test } from "node:test";
import { fences, filterOf, frontier, sorted } from "../src/filter";

const columns = [
  { name: "group", number: false, setting: false },
  { name: "optimizer.lr", number: true, setting: true },
  { name: "loss", number: true, setting: false },
];
const rows = [["adamw", 0.1, 2], ["muon", 0.5, 1.5], ["muon", 1, null]];
const kept = (text: string) => rows.filter(filterOf(text, columns)).length;

test("a filter compares columns and looks for words", () => {
  assert.equal(kept(""), 3);
  assert.equal(kept("muon"), 2);
  assert.equal(kept("group=muon loss<1.6"), 1);
  assert.equal(kept("lr>=0.5"), 2);
  assert.equal(kept("optimizer.lr=0.50"), 1);
  assert.equal(kept("loss<"), 3);
  assert.equal(kept("loss>0"), 2); // a run without a loss has none above 0
  assert.equal(kept("nonsense"), 0);
});

test("sorting puts what is missing last, either way", () => {
  assert.deepEqual(sorted(rows, 2, false).map((row) => row[2]), [1.5, 2, null]);
  assert.deepEqual(sorted(rows, 2, true).map((row) => row[2]), [2, 1.5, null]);
});

test("fences leave out what lies far from the rest, and nothing else", () => {
  assert.deepEqual(fences([1, 2, 3, 4, 5, 6, 7, 8, 9, 1000]), [1, 23]);
  assert.deepEqual(fences([1, 1, 1, 1, 1, 1, 9, 9]), [1, 9]);
  assert.deepEqual(fences([3, 1, 2]), [1, 3]);
});

test("the frontier holds what nothing beats in both", () => {
  const all = [{ x: 1, y: 3 }, { x: 2, y: 3 }, { x: 2, y: 2 }, { x: 3, y: 4 }, { x: 4, y: 1 }];
  assert.deepEqual(frontier(all, (p) => p.x, (p) => p.y).map((p) => p.x), [1, 2, 4]);
});
