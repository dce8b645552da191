// Parallel coordinates: an axis for every setting that varies and for what came out, a line for every run.
import * as Plot from "@observablehq/plot";
import { palette } from "./colors";
import type { Cell, Column } from "./data";
import { fences } from "./filter";
import { naturally, numberText } from "./format";
import type { SweepView } from "./sweep";

interface Axis {
  column: Column;
  place: number;
  ticks: { at: number; text: string }[];
  at: (cell: Cell) => number; // in [0, 1]; below where it has none
}

const outcomes = ["log10_bound", "loss"];

const without = -0.1; // where a run stands that has no such setting
const mostWords = 24;

// Words stand in their order; numbers that span a wide range, by their logarithm; outcomes that lie far out, at the end of their axis.
function axisOf(column: Column, place: number, rows: Cell[][]): Axis | null {
  const all = rows.map((row) => row[place] ?? null);
  const values = [...new Set(all.filter((cell) => cell !== null))];
  if (values.length < 2) return null;
  const missing = all.includes(null) ? [{ at: without, text: "—" }] : [];
  if (!column.number) {
    const words = values.map(String).sort(naturally);
    const at = (cell: Cell) => (cell === null ? without : words.indexOf(String(cell)) / (words.length - 1));
    const ticks = words.length > mostWords ? [] : words.map((text) => ({ at: at(text), text }));
    return { column, place, at, ticks: [...ticks, ...missing] };
  }
  const numbers = (values as number[]).sort((a, b) => a - b);
  const [low, high] = outcomes.includes(column.name) ? fences(all.filter((cell) => typeof cell === "number")) : [numbers[0]!, numbers.at(-1)!];
  const log = low > 0 && high / low > 50;
  const scale = log ? Math.log : (value: number) => value;
  const inside = (share: number) => Math.min(1, Math.max(0, share));
  const at = (cell: Cell) => (typeof cell === "number" ? inside((scale(cell) - scale(low)) / (scale(high) - scale(low) || 1)) : without);
  const shown = numbers.length <= 6 ? numbers : [low, high];
  const texts = [3, 4, 5, 6].map((digits) => shown.map((value) => numberText(value, digits)));
  const different = texts.find((some) => new Set(some).size === some.length) ?? texts.at(-1)!;
  const beyond = (value: number) => (value === high && high < numbers.at(-1)! ? "≥ " : value === low && low > numbers[0]! ? "≤ " : "");
  return { column, place, at, ticks: [...shown.map((value, i) => ({ at: at(value), text: `${beyond(value)}${different[i]}` })), ...missing] };
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

interface Corner {
  x: number;
  y: number;
  line: number; // in the order of drawing
  opacity: number; // the most for the lowest loss
  title: string;
}

function cornersOf(view: SweepView, rows: Cell[][], axes: Axis[]): Corner[] {
  const ranks = ranksOf(view, rows);
  const faintest = Math.max(0.06, Math.min(0.4, 30 / rows.length));
  const order = rows.map((_, i) => i).sort((a, b) => ranks[b]! - ranks[a]!); // the best are drawn last
  const shown = (cell: Cell | undefined) => (typeof cell === "number" ? numberText(cell, 5) : (cell ?? "—"));
  return order.flatMap((i, line) => {
    const title = axes.map((axis) => `${axis.column.name} ${shown(rows[i]![axis.place])}`).join("\n");
    return axes.map((axis, x) => ({ x, y: axis.at(rows[i]![axis.place] ?? null), line, opacity: faintest + (0.9 - faintest) * (1 - ranks[i]!) ** 3, title }));
  });
}

// Places along the lines, corners included, for a pointer to be near to: of the curve bump-x, with t from one axis to the next.
function placesOf(corners: Corner[]): Corner[] {
  return corners.flatMap((corner, i) => {
    const next = corners[i + 1];
    if (next?.line !== corner.line) return [corner];
    return [0, 0.15, 0.3, 0.45, 0.55, 0.7, 0.85].map((t) =>
      ({ ...corner, x: corner.x + 1.5 * t * (1 - t) + t ** 3, y: corner.y + (next.y - corner.y) * t * t * (3 - 2 * t) }));
  });
}

// The line that the pointer is at stands out.
function highlight(picture: SVGSVGElement & { value?: Corner | null }): void {
  const lines = picture.querySelectorAll<SVGPathElement>("[aria-label=line] path");
  let marked: SVGPathElement | undefined;
  picture.addEventListener("input", () => {
    marked?.removeAttribute("style");
    marked = picture.value ? lines[picture.value.line] : undefined;
    marked?.setAttribute("style", "stroke-width: 3; stroke-opacity: 1; stroke: currentColor");
  });
}

export function parallel(view: SweepView, width: number): SVGSVGElement | null {
  const rows = view.rows();
  const axes = axesOf(view, rows);
  if (axes.length < 2 || !rows.length) return null;
  const corners = cornersOf(view, rows, axes);
  const ticks = axes.flatMap((axis, x) => axis.ticks.map((tick) => ({ x, ...tick })));
  const names = axes.map((axis, x) => ({ x, name: axis.column.name.replace(/^.*\./, ""), whole: axis.column.name, stagger: x % 2 }));
  const picture = Plot.plot({
    width: Math.max(width, 90 * axes.length),
    height: 380,
    marginTop: 44,
    marginLeft: 50,
    marginRight: 60,
    marginBottom: 16,
    axis: null,
    x: { domain: [0, axes.length - 1] },
    y: { domain: [axes.some((axis) => axis.ticks.some((tick) => tick.at === without)) ? without : 0, 1] },
    marks: [
      Plot.line(corners, { x: "x", y: "y", z: "line", stroke: palette[0], strokeOpacity: "opacity", strokeWidth: 1.3, curve: "bump-x" }),
      Plot.ruleX(names, { x: "x", y1: 0, y2: 1, stroke: "currentColor", strokeOpacity: 0.6 }),
      Plot.text(ticks, { x: "x", y: "at", text: "text", dx: 5, textAnchor: "start", fontSize: 10, stroke: "var(--plot-background)", fill: "currentColor", strokeWidth: 4 }),
      ...[0, 1].map((stagger) => Plot.text(names.filter((name) => name.stagger === stagger),
        { x: "x", text: "name", title: "whole", frameAnchor: "top", dy: stagger ? -32 : -18, fontWeight: 600 })),
      Plot.tip(placesOf(corners), Plot.pointer({ x: "x", y: "y", title: "title" })),
    ],
  }) as SVGSVGElement;
  highlight(picture);
  return picture;
}
