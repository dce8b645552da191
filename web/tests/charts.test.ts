import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { attackTable, chartOf, csvTable } from "../src/chart_file";
import type { Table } from "../src/tables";

const { window } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document: window.document });

const tables: Record<string, Table> = {
  "runs.csv": {
    columns: ["group", "seed", "log10_bound", "loss"],
    rows: [["a", 0, 1, 2], ["a", 1, 1.1, 2.2], ["b", 0, 2, 1.5], ["<b>", 0, 3, 1.6], ["b", 1, null, 9]],
  },
};
const read = (name: string): Table => tables[name]!;
const series = { table: "runs.csv", x: "log10_bound", y: "loss" };
const draw = (more: object, x: object = { log: true, label: "bound" }) =>
  chartOf("chart", { title: "A <title>", x, y: { label: "loss" }, series: [{ name: "runs", ...series, ...more }] }, read);
const dots = (picture: Element) => picture.querySelectorAll("[aria-label=dot] path, [aria-label=dot] circle").length;
const texts = (picture: Element) => [...picture.querySelectorAll("text")].map((text) => text.textContent);

test("a chart has its title, its axes, a legend and a dot for every row that has both numbers", () => {
  const picture = draw({});
  for (const expected of ["A <title>", "runs", "bound", "10", "1,000"])
    assert.ok(texts(picture).some((text) => text?.includes(expected)), `${expected} is not in ${texts(picture)}`);
  assert.equal(dots(picture), 4);
  assert.ok(!picture.outerHTML.includes("A <title>"), "a text is not escaped");
});

test("rows are filtered as on the page, and drawn in a series for every value", () => {
  assert.equal(dots(draw({ where: "group=a loss<2.1" })), 1);
  const picture = draw({ each: "group", names: { b: "the second", a: "the first" } });
  assert.deepEqual(texts(picture).filter((text) => text?.startsWith("the ")), ["the second", "the first"]);
  assert.equal(dots(picture), 3);
  assert.equal(dots(draw({ where: "seed=1", each: "group" })), 1); // of b no row has a bound
});

test("a point for several rows is their mean, with a bar over their range", () => {
  const picture = draw({ per: "group", where: "group=a" });
  assert.equal(dots(picture), 1);
  assert.equal(picture.querySelectorAll("[aria-label=rule] line").length, 1);
});

test("only the rows that no other beats in both are on a best line", () => {
  assert.equal(dots(draw({ line: "best" })), 2);
});

test("columns with a star between them are multiplied", () => {
  assert.ok(draw({ y: "loss * loss", dots: false }, {}).querySelector("[aria-label=line] path"));
});

test("a CSV file is read with quotes, empty cells and any ending of a line", () => {
  const table = csvTable('name,loss,bound\r\n"a, ""b""\nc",1.5,\n\nd,x,1e3');
  assert.deepEqual(table, { columns: ["name", "loss", "bound"], rows: [['a, "b"\nc', 1.5, null], ["d", "x", 1000]] });
});

test("an attack's table begins without an attack", () => {
  const table = attackTable('{"norm": "l2", "accuracy": 0.5, "points": [{"epsilon": 1, "accuracy": 0.2, "certified_accuracy": 0.1}]}');
  assert.deepEqual(table, { columns: ["epsilon", "accuracy", "certified_accuracy"], rows: [[0, 0.5, null], [1, 0.2, 0.1]] });
});

test("a mistake in a description is named", () => {
  assert.throws(() => draw({ colour: 1 }), /series\[0\]: unknown key colour; known are name/);
  assert.throws(() => draw({ y: "los" }), /has no column los; it has group, seed/);
  assert.throws(() => draw({ where: "group=c" }), /no row has points for "runs"/);
  assert.throws(() => draw({ where: "group=c", each: "group" }), /no row has points for "group"/);
  assert.throws(() => draw({ where: "group=a", each: "group", names: { a: "a", b: "b" } }), /no row has points for "b"/);
  assert.throws(() => draw({ line: "curved" }), /line must be one of join, best, none/);
  assert.throws(() => draw({ x: 3 }), /x must be a text/);
  assert.throws(() => chartOf("chart", { series: [series], rules: [{ label: "no place" }] }, read), /rules\[0\]: at is missing/);
  assert.throws(() => chartOf("chart", {}, read), /there is nothing to draw/);
});
