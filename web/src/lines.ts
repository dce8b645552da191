// Lines of several runs over one axis: the shape that most charts of a run have.
import * as Plot from "@observablehq/plot";
import type { Run } from "./data";
import { numberText } from "./format";
import { positive, type Point } from "./series";
import type { Store } from "./store";

export interface Line {
  run: Run;
  points: Point[];
  dash?: string; // of this kind of line; a run's own dash goes before it
  label?: string; // in the tip
  faint?: boolean;
  band?: boolean; // the range that a point stands for
  dots?: boolean;
}

export interface LinesOptions {
  width: number;
  height?: number;
  logX?: boolean;
  logY?: boolean;
  xLabel: string;
  yLabel: string;
  yPercent?: boolean;
  from0?: boolean;
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

function marksOf(store: Store, line: Line): Plot.Markish[] {
  const { color, dash } = store.inkOf(line.run);
  const marks: Plot.Markish[] = [];
  if (line.band)
    marks.push(Plot.areaY(line.points, { x: "x", y1: "low", y2: "high", fill: color, fillOpacity: 0.15 }));
  marks.push(Plot.lineY(line.points, {
    x: "x", y: "y", stroke: color, strokeWidth: line.faint ? 1 : 1.8, strokeOpacity: line.faint ? 0.35 : 1,
    strokeDasharray: dash || line.dash || "none",
  }));
  if (line.dots) marks.push(Plot.dot(line.points.filter((p) => !Number.isNaN(p.y)), { x: "x", y: "y", fill: color, r: 2.5 }));
  return marks;
}

function tipsOf(lines: Line[], text: (value: number) => string): Tip[] {
  return lines.filter((line) => !line.faint).flatMap((line) =>
    line.points.filter((point) => !Number.isNaN(point.y)).map((point) => ({
      ...point,
      title: `${line.run.name}\n${line.label ? `${line.label}  ` : ""}${text(point.y)}\n${Number.isNaN(point.step) ? `ε ${numberText(point.x)}` : `step ${numberText(point.step)}`}`,
    })));
}

export function linesChart(store: Store, lines: Line[], options: LinesOptions): SVGSVGElement | null {
  const { width, logX, logY } = options;
  const drawn = lines.map((line) => ({
    ...line,
    points: logY || logX
      ? positive(line.points).map((p) => ({ ...p, low: logY && p.low <= 0 ? p.y : p.low, high: p.high }))
      : line.points,
  }));
  if (!drawn.some((line) => line.points.some((point) => !Number.isNaN(point.y)))) return null;
  const values = drawn.flatMap((line) => line.points.map((point) => point.y)).filter((value) => !Number.isNaN(value));
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const tips = tipsOf(drawn, options.valueText ?? ((value) => numberText(value, 5)));
  return Plot.plot({
    width,
    height: options.height ?? (narrow(width) ? 240 : 300),
    marginLeft: 56,
    marginRight: 12,
    x: { label: options.xLabel, type: logX ? "log" : "linear", nice: false, grid: false, ticks: narrow(width) ? 4 : 8 },
    y: {
      label: options.yLabel, type: logY ? "log" : "linear", grid: !logY, zero: options.from0, nice: !logY,
      tickFormat: options.yPercent ? "%" : undefined, axis: logY ? null : undefined,
    },
    marks: [
      ...(logY ? [Plot.gridY(logTicks(low, high)), Plot.axisY(logTicks(low, high), { text: (tick: number) => numberText(tick), label: options.yLabel })] : []),
      ...(options.marks ?? []),
      ...drawn.flatMap((line) => marksOf(store, line)),
      Plot.ruleX(tips, Plot.pointerX({ x: "x", py: "y", stroke: "currentColor", strokeOpacity: 0.3 })),
      Plot.tip(tips, Plot.pointerX({ x: "x", y: "y", title: "title" })),
    ],
  }) as SVGSVGElement;
}
