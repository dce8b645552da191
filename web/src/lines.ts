// Lines and dots over one pair of axes: the shape that most charts have, of runs and of sweeps, on the page and in files.
import * as Plot from "@observablehq/plot";
import type { Ink } from "./colors";
import { numberText, powerText } from "./format";
import { positive, type Point } from "./series";

export interface Line {
  name: string; // of the run or group
  ink: Ink;
  points: Point[];
  dash?: string; // of this kind of line; the ink's own goes before it
  label?: string; // in the tip
  titles?: string[]; // of the points, instead of tips made of name and values
  faint?: boolean;
  steps?: boolean; // a value holds up to the next point
  noLine?: boolean;
  band?: boolean; // the range that a point stands for, as an area
  bars?: boolean; // the same as a bar at every point
  dots?: boolean;
  dotOpacity?: number;
  radius?: number;
}

export interface Rule {
  at: number;
  label: string;
}

export interface LinesOptions {
  width: number;
  height?: number;
  fontSize?: number;
  logX?: boolean;
  logY?: boolean;
  xLabel: string;
  yLabel: string;
  yPercent?: boolean;
  from0?: boolean;
  xLimits?: [number, number];
  yLimits?: [number, number];
  rules?: Rule[]; // across, with their names
  nearest?: boolean; // the tip is of the dot that is nearest in both directions
  valueText?: (value: number) => string;
  marks?: Plot.Markish[];
}

interface Tip extends Point {
  title: string;
}

// Ticks of a logarithmic axis that are few enough to read: powers of ten, with 2 and 5 over few decades, even steps within one.
export function logTicks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  if (!(decades > 0) || !Number.isFinite(decades)) return [low];
  if (decades < 1) {
    const rough = (high - low) / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= rough) ?? 10);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(6)));
  }
  const every = Math.ceil(decades / 8);
  const exponents = Array.from({ length: Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1 }, (_, i) => Math.floor(Math.log10(low)) + i);
  const factors = decades < 3 ? [1, 2, 5] : [1];
  return exponents.filter((exponent) => exponent % every === 0).flatMap((exponent) => factors.map((factor) => factor * 10 ** exponent))
    .filter((tick) => tick >= low && tick <= high);
}

// The same for an axis of exponents of ten.
export function exponentTicks(exponents: number[], narrowAxis = false): number[] {
  const finite = exponents.filter((exponent) => Number.isFinite(exponent));
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  if (!finite.length || low < -300 || high > 300) return [];
  const ticks = logTicks(10 ** low, 10 ** high).map(Math.log10);
  return narrowAxis && ticks.length > 5 ? ticks.filter((_, i) => i % 2 === 0) : ticks;
}

export const narrow = (width: number): boolean => width < 480;

function marksOf(line: Line): Plot.Markish[] {
  const { color, dash, symbol } = line.ink;
  const clear = line.points.filter((point) => !Number.isNaN(point.y));
  const marks: Plot.Markish[] = [];
  if (line.band)
    marks.push(Plot.areaY(line.points, { x: "x", y1: "low", y2: "high", fill: color, fillOpacity: 0.15 }));
  if (line.bars)
    marks.push(Plot.ruleX(clear.filter((p) => p.high > p.low), { x: "x", y1: "low", y2: "high", stroke: color, strokeWidth: 1.2 }));
  if (!line.noLine) {
    marks.push(Plot.line(line.points, {
      x: "x", y: "y", stroke: color, strokeWidth: line.faint ? 1 : 1.8, strokeOpacity: line.faint ? 0.35 : 1,
      strokeDasharray: dash || line.dash || "none", curve: line.steps ? "step-after" : "linear",
    }));
  }
  if (line.dots)
    marks.push(Plot.dot(clear, { x: "x", y: "y", fill: color, fillOpacity: line.dotOpacity ?? 1, r: line.radius ?? 2.5, symbol }));
  return marks;
}

function tipsOf(lines: Line[], text: (value: number) => string): Tip[] {
  const place = (point: Point) => (Number.isNaN(point.step) ? `ε ${numberText(point.x)}` : `step ${numberText(point.step)}`);
  return lines.filter((line) => !line.faint).flatMap((line) => line.points.flatMap((point, i) => {
    if (Number.isNaN(point.y)) return [];
    const made = `${line.name}\n${line.label ? `${line.label}  ` : ""}${text(point.y)}\n${place(point)}`;
    return [{ ...point, title: line.titles?.[i] ?? made }];
  }));
}

// Axis and grid of one direction. A logarithmic one has few ticks, and powers of ten as such.
function logAxis(direction: "x" | "y", values: number[], label: string, few: boolean): Plot.Markish[] {
  const all = logTicks(values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b)));
  const ticks = few && all.length > 5 ? all.filter((_, i) => i % 2 === 0) : all;
  return direction === "x"
    ? [Plot.gridX(ticks), Plot.axisX(ticks, { text: powerText, label })]
    : [Plot.gridY(ticks), Plot.axisY(ticks, { text: powerText, label })];
}

function rulesOf(rules: Rule[]): Plot.Markish[] {
  return [
    Plot.ruleY(rules, { y: "at", stroke: "currentColor", strokeOpacity: 0.6, strokeDasharray: "2 4" }),
    Plot.text(rules, { y: "at", text: "label", frameAnchor: "right", dy: -7, textAnchor: "end",
      stroke: "var(--plot-background)", strokeWidth: 3, fill: "currentColor" }),
  ];
}

const drawable = (line: Line, logX?: boolean, logY?: boolean): Line => (logX || logY ? {
  ...line,
  points: positive(line.points, logX, logY).map((p) => ({ ...p, low: logY && p.low <= 0 ? p.y : p.low })),
} : line);

const inside = (values: number[], limits?: [number, number]): number[] => (limits ? [...limits] : values);

export function linesChart(lines: Line[], options: LinesOptions): SVGSVGElement | null {
  const { width, logX, logY, rules = [], fontSize = 10 } = options;
  const drawn = lines.map((line) => drawable(line, logX, logY));
  const clear = drawn.flatMap((line) => line.points).filter((point) => !Number.isNaN(point.y));
  if (!clear.length) return null;
  const ys = inside([...clear.map((point) => point.y), ...rules.map((rule) => rule.at)], options.yLimits);
  const xs = inside(clear.map((point) => point.x), options.xLimits);
  const tips = tipsOf(drawn, options.valueText ?? ((value) => numberText(value, 5)));
  const pointer = options.nearest ? Plot.pointer : Plot.pointerX;
  return Plot.plot({
    width,
    height: options.height ?? (narrow(width) ? 240 : 300),
    marginLeft: 56,
    marginRight: 16,
    marginBottom: 20 + 1.6 * fontSize,
    style: { fontSize: `${fontSize}px` },
    clip: options.xLimits || options.yLimits ? true : undefined,
    x: {
      label: options.xLabel, type: logX ? "log" : "linear", domain: options.xLimits, nice: false, grid: false,
      ticks: narrow(width) ? 4 : 8, axis: logX ? null : undefined, inset: options.xLimits ? 0 : 4,
    },
    y: {
      label: options.yLabel, type: logY ? "log" : "linear", domain: options.yLimits, grid: !logY, zero: options.from0,
      nice: !logY && !options.yLimits, tickFormat: options.yPercent ? "%" : undefined, axis: logY ? null : undefined,
    },
    marks: [
      ...(logX ? logAxis("x", xs, options.xLabel, narrow(width)) : []),
      ...(logY ? logAxis("y", ys, options.yLabel, false) : []),
      ...rulesOf(rules),
      ...(options.marks ?? []),
      ...drawn.flatMap(marksOf),
      options.nearest ? null : Plot.ruleX(tips, Plot.pointerX({ x: "x", py: "y", stroke: "currentColor", strokeOpacity: 0.3 })),
      Plot.tip(tips, pointer({ x: "x", y: "y", title: "title" })),
    ],
  }) as SVGSVGElement;
}
