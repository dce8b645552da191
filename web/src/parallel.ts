// Parallel coordinates: an axis for every setting that varies and for what came out, a line for every run.
import * as Plot from "@observablehq/plot";
import type { Cell, Column } from "./data";
import { numberText } from "./format";
import type { SweepView } from "./sweep";

interface Axis {
  column: Column;
  place: number;
  ticks: { at: number; text: string }[];
  at: (cell: Cell) => number; // in [0, 1], NaN where it has none
}

const outcomes = ["log10_bound", "loss"];

// Words stand in their order; numbers that span a wide range, by their logarithm.
function axisOf(column: Column, place: number, rows: Cell[][]): Axis | null {
  const values = [...new Set(rows.map((row) => row[place] ?? null).filter((cell) => cell !== null))];
  if (values.length < 2) return null;
  if (!column.number) {
    const words = values.map(String).sort();
    const at = (cell: Cell) => (cell === null ? NaN : words.indexOf(String(cell)) / (words.length - 1));
    return { column, place, at, ticks: words.length > 12 ? [] : words.map((text, i) => ({ at: i / (words.length - 1), text })) };
  }
  const numbers = (values as number[]).sort((a, b) => a - b);
  const [low, high] = [numbers[0]!, numbers.at(-1)!];
  const log = low > 0 && high / low > 50;
  const scale = log ? Math.log : (value: number) => value;
  const at = (cell: Cell) => (typeof cell === "number" ? (scale(cell) - scale(low)) / (scale(high) - scale(low)) : NaN);
  const shown = numbers.length <= 6 ? numbers : [low, high];
  return { column, place, at, ticks: shown.map((value) => ({ at: at(value), text: numberText(value, 3) })) };
}

function axesOf(view: SweepView, rows: Cell[][]): Axis[] {
  const wanted = (column: Column) => column.setting || column.name === "group" || outcomes.includes(column.name);
  const axes = view.sweep.columns.flatMap((column, place) => (wanted(column) ? [axisOf(column, place, rows)] : []))
    .filter((axis): axis is Axis => axis !== null);
  const rank = (axis: Axis) => outcomes.indexOf(axis.column.name);
  return axes.sort((a, b) => rank(a) - rank(b));
}

// Ranks of the loss in [0, 1], 0 the lowest; without one a line is faint.
function ranksOf(view: SweepView, rows: Cell[][]): number[] {
  const place = view.place("loss");
  const losses = rows.map((row) => (typeof row[place] === "number" ? (row[place] as number) : Infinity));
  const order = [...losses].sort((a, b) => a - b);
  const rank = new Map(order.map((loss, i) => [loss, i / Math.max(1, order.length - 1)]));
  return losses.map((loss) => rank.get(loss) ?? 1);
}

export function parallel(view: SweepView, width: number): SVGSVGElement | null {
  const rows = view.rows();
  const axes = axesOf(view, rows);
  if (axes.length < 2 || !rows.length) return null;
  const ranks = ranksOf(view, rows);
  const order = rows.map((_, i) => i).sort((a, b) => ranks[b]! - ranks[a]!); // the best are drawn last
  const points = order.flatMap((i) => axes.map((axis, x) =>
    ({ x, y: axis.at(rows[i]![axis.place] ?? null), line: i, rank: ranks[i]! })));
  const ticks = axes.flatMap((axis, x) => axis.ticks.map((tick) => ({ x, ...tick })));
  const names = axes.map((axis, x) => ({ x, name: axis.column.name.replace(/^.*\./, ""), whole: axis.column.name, stagger: x % 2 }));
  const opacity = Math.max(0.08, Math.min(0.8, 60 / rows.length));
  return Plot.plot({
    width: Math.max(width, 90 * axes.length),
    height: 340,
    marginTop: 44,
    marginLeft: 50,
    marginRight: 60,
    axis: null,
    x: { domain: [0, axes.length - 1] },
    y: { domain: [0, 1] },
    color: { type: "linear", scheme: "viridis", domain: [0, 1.12] },
    marks: [
      Plot.line(points, { x: "x", y: "y", z: "line", stroke: "rank", strokeOpacity: opacity, strokeWidth: 1.2, curve: "bump-x" }),
      Plot.ruleX(names, { x: "x", stroke: "currentColor", strokeOpacity: 0.6 }),
      Plot.text(ticks, { x: "x", y: "at", text: "text", dx: 5, textAnchor: "start", fontSize: 10, stroke: "var(--plot-background)", fill: "currentColor", strokeWidth: 4 }),
      ...[0, 1].map((stagger) => Plot.text(names.filter((name) => name.stagger === stagger),
        { x: "x", text: "name", title: "whole", frameAnchor: "top", dy: stagger ? -32 : -18, fontWeight: 600 })),
    ],
  }) as SVGSVGElement;
}
