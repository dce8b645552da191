// The bound over training, and at its end against the largest stretch that a search found.
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import type { Run, Series } from "./data";
import { h, section, type Table } from "./dom";
import { boundText, numberText } from "./format";
import { exponentTicks, linesChart, narrow, type Line } from "./lines";
import { points } from "./series";
import type { Store } from "./store";

const largest = 300; // the largest exponent that is drawn as a number

const exponentOf = (value: number | null): number | null => (value !== null && value > 0 ? Math.log10(value) : null);

// log10 of the bound in force: at evaluations from measured norms, with a budget at every line from the caps.
function logarithms(run: Run): { series: Series; label: string; dots: boolean }[] {
  const all = [];
  const caps = run.series.bound_of_caps;
  if (caps) all.push({ series: { ...caps, value: caps.value.map(exponentOf) }, label: "of the caps in force", dots: false });
  const measured = run.series.log10_lipschitz;
  if (measured) all.push({ series: measured, label: "of the weights, proved", dots: true });
  return all;
}

function overTraining(store: Store, width: number): SVGSVGElement | null {
  const lines = store.shown().flatMap((run): Line[] => logarithms(run).map(({ series, label, dots }) =>
    ({ ...store.named(run), points: points(run, series, store.view.axis), label, dots, dash: dots ? undefined : "2 2" })));
  const asNumbers = lines.every((line) => line.points.every((point) => !(point.y > largest)));
  const drawn = asNumbers ? lines.map((line) => ({ ...line, points: line.points.map((p) => ({ ...p, y: 10 ** p.y })) })) : lines;
  const budgets = store.shown().flatMap((run) => {
    const budget = Number(run.settings["constraint.lipschitz"] ?? 0);
    return budget > 0 ? [{ y: asNumbers ? budget : Math.log10(budget), run }] : [];
  });
  return linesChart(drawn, {
    width, logY: asNumbers, logX: store.view.logX, xLabel: store.view.axis === "step" ? "step" : "seconds of training",
    yLabel: asNumbers ? "Lipschitz bound" : "log10 of the Lipschitz bound",
    valueText: (value) => `bound ${boundText(asNumbers ? Math.log10(value) : value)}`,
    marks: budgets.map(({ y, run }) => Plot.ruleY([y], { stroke: store.inkOf(run).color, strokeOpacity: 0.5, strokeDasharray: "1 4", strokeWidth: 2 })),
  });
}

interface Gap {
  run: Run;
  bound: number; // log10
  text: string;
  observed: number; // log10, NaN without a search
  budget: number;
}

const gapsOf = (store: Store): Gap[] => store.shown().flatMap((run) => run.certificate ? [{
  run,
  bound: run.certificate.log10Lipschitz,
  text: boundText(run.certificate.log10Lipschitz, run.certificate.lipschitz),
  observed: exponentOf(run.certificate.observed) ?? NaN,
  budget: exponentOf(Number(run.settings["constraint.lipschitz"] ?? 0)) ?? NaN,
}] : []);

function upperAndLower(store: Store, width: number): SVGSVGElement | null {
  const gaps = gapsOf(store).filter((gap) => Number.isFinite(gap.bound));
  if (!gaps.length) return null;
  const y = (gap: Gap) => gap.run.name;
  const color = (gap: Gap) => store.inkOf(gap.run).color;
  const found = gaps.filter((gap) => Number.isFinite(gap.observed));
  const axis = exponentTicks(gaps.flatMap((gap) => [gap.bound, gap.observed, gap.budget]), narrow(width));
  const title = (gap: Gap) => `${gap.run.name}\nat most ${gap.text}\nat least ${Number.isFinite(gap.observed)
    ? numberText(10 ** gap.observed) : "not searched"}`;
  return Plot.plot({
    width,
    height: 60 + 34 * gaps.length,
    marginLeft: narrow(width) ? 90 : 160,
    marginRight: 24,
    x: { label: "stretch", grid: true, inset: 8, ticks: axis.length ? axis : 4, tickFormat: (exponent: number) => numberText(10 ** exponent, 2) },
    y: { label: null, domain: gaps.map(y), tickFormat: (name: string) => (name.length > 22 ? `${name.slice(0, 21)}…` : name) },
    marks: [
      Plot.link(found, { x1: "observed", x2: "bound", y1: y, y2: y, stroke: color, strokeWidth: 5, strokeOpacity: 0.35 }),
      Plot.dot(found, { x: "observed", y, stroke: color, strokeWidth: 2, r: 5, fill: "var(--plot-background)" }),
      Plot.dot(gaps, { x: "bound", y, fill: color, r: 5 }),
      Plot.tickX(gaps.filter((gap) => Number.isFinite(gap.budget)), { x: "budget", y, stroke: "currentColor", strokeDasharray: "2 2" }),
      Plot.tip(gaps, Plot.pointer({ x: "bound", y, title })),
    ],
  }) as SVGSVGElement;
}

function numbers(store: Store): Table {
  return {
    head: ["run", "upper bound", "observed", "upper ÷ observed", "budget"],
    rows: gapsOf(store).map((gap) => [gap.run.name, gap.text, numberText(10 ** gap.observed),
      numberText(10 ** (gap.bound - gap.observed)), numberText(10 ** gap.budget)]),
  };
}

// The bounds that evaluations proved.
function proved(store: Store): Table {
  const rows = store.shown().flatMap((run) => {
    const { step = [], value = [] } = run.series.log10_lipschitz ?? {};
    return step.map((at, i) => [run.name, numberText(at), boundText(value[i])]);
  });
  return { head: ["run", "step", "bound"], rows };
}

export function bound(store: Store): HTMLElement | null {
  const has = store.data.runs.some((run) => run.certificate || run.series.log10_lipschitz || run.series.bound_of_caps);
  if (!has) return null;
  return section("The bound", h("div", { class: "charts" },
    chart(store, {
      title: "Bound over training",
      note: "Dots: proved from the weights at an evaluation. Fine dashes: of the caps in force. Dotted across: the budget.",
      draw: (width) => overTraining(store, width),
      numbers: () => proved(store),
    }),
    chart(store, {
      title: "Upper bound and observed stretch",
      note: "Full: the certified bound, from above. Hollow: the largest stretch that a search found, from below. The true constant lies between. Tick: the budget.",
      draw: (width) => upperAndLower(store, width),
      numbers: () => numbers(store),
    })));
}
