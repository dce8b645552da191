import assert from "node:assert/strict";
import { test } from "node:test";
import { boundText, certifiedText, durationText, naturally, numberText, shellWord } from "../src/format";

test("a bound is shown with four digits and never smaller than it is", () => {
  assert.equal(boundText(Math.log10(19.99991)), "20");
  assert.equal(boundText(Math.log10(1.23411)), "1.235");
  assert.equal(boundText(0), "1.001"); // rounding of a logarithm may hide what is above 1
  assert.equal(boundText(0, 1), "1");
  assert.equal(boundText(12.00001), "10^12.001");
  assert.equal(boundText(-Infinity), "0");
  assert.equal(boundText(null), "—");
  for (let i = 0; i < 2000; ++i) {
    const log10 = -3.9 + (10.8 * i) / 2000;
    const shown = Number(boundText(log10));
    assert.ok(shown >= 10 ** log10 && shown <= 10 ** log10 * 1.0021, `${log10}: ${shown}`);
  }
});

test("a certified share is rounded down", () => {
  assert.equal(certifiedText(0.98769), "98.76 %");
});

test("numbers are short", () => {
  assert.equal(numberText(1234567), "1,234,567");
  assert.equal(numberText(0.000012345), "1.234e-5");
  assert.equal(numberText(0.00001), "1e-5");
  assert.equal(numberText(1.500001), "1.5");
  assert.equal(numberText(NaN), "—");
  assert.equal(durationText(3723), "1:02:03");
  assert.equal(durationText(65), "01:05");
});

test("a command holds any folder's name as one word", () => {
  assert.equal(shellWord("runs/a-1/model.safetensors"), "runs/a-1/model.safetensors");
  assert.equal(shellWord("a b"), "'a b'");
  assert.equal(shellWord("it's; rm -rf $HOME"), "'it'\\''s; rm -rf $HOME'");
  assert.equal(shellWord("-x"), "'-x'");
});

test("layer 2 comes before layer 10", () => {
  assert.deepEqual(["layers.10.q", "layers.2.q"].sort(naturally), ["layers.2.q", "layers.10.q"]);
});
