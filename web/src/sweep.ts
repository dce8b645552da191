// A sweep: the frontier of loss against bound, all settings side by side, and a table to sort and filter. The filter holds for all three.
import { chart } from "./chart";
import { ink, tellApart, type Ink } from "./colors";
import type { Cell, Sweep } from "./data";
import { checkbox, h, section, select } from "./dom";
import { fences, filterOf, frontier } from "./filter";
import { naturally, numberText } from "./format";
import type { LegendEntry } from "./legend";
import { linesChart, narrow, type Line } from "./lines";
import { parallel } from "./parallel";
import type { Point } from "./series";
import { Store } from "./store";
import { sweepTable } from "./sweep_table";

interface Choice {
  x: string;
  y: string;
  color: string;
  filter: string;
  all: boolean; // runs beyond the fences of loss or bound too
}

export class SweepView {
  choice: Choice;
  constructor(readonly store: Store, readonly sweep: Sweep) {
    const has = (name: string) => sweep.columns.some((column) => column.name === name);
    const numbers = sweep.columns.filter((column) => column.number).map((column) => column.name);
    this.choice = {
      x: has("log10_bound") ? "log10_bound" : (numbers[1] ?? numbers[0] ?? ""),
      y: has("loss") ? "loss" : (numbers[0] ?? ""),
      color: has("group") ? "group" : (sweep.columns.find((column) => column.setting)?.name ?? ""),
      filter: "",
      all: false,
    };
  }

  choose(choice: Partial<Choice>): void {
    this.choice = { ...this.choice, ...choice };
    this.store.changed();
  }

  place(name: string): number {
    return this.sweep.columns.findIndex((column) => column.name === name);
  }

  rows(): Cell[][] {
    return this.sweep.rows.filter(filterOf(this.choice.filter, this.sweep.columns));
  }
}

interface Dot extends Point {
  group: string;
  title: string;
}

// A column of exponents is drawn as what it is the logarithm of, while that is a number.
function scaleOf(view: SweepView, name: string): { label: string; log: boolean; value: (cell: number) => number } {
  const largest = Math.max(...view.sweep.rows.map((row) => Math.abs(Number(row[view.place(name)] ?? 0))));
  const log = name.startsWith("log10_") && largest <= 300;
  return log ? { label: name.slice("log10_".length).replaceAll("_", " "), log, value: (cell) => 10 ** cell }
    : { label: name, log, value: (cell) => cell };
}

function dotsOf(view: SweepView): Dot[] {
  const { choice } = view;
  const [x, y, color] = [view.place(choice.x), view.place(choice.y), view.place(choice.color)];
  const [xScale, yScale] = [scaleOf(view, choice.x), scaleOf(view, choice.y)];
  const settings = view.sweep.columns.flatMap((column, i) => (column.setting ? [{ name: column.name, i }] : []));
  return view.rows().flatMap((row) => {
    if (typeof row[x] !== "number" || typeof row[y] !== "number") return [];
    const [a, b] = [xScale.value(row[x] as number), yScale.value(row[y] as number)];
    const group = String(row[color] ?? "—");
    const lines = settings.filter(({ i }) => row[i] !== null).map(({ name, i }) => `${name} ${row[i]}`);
    const title = [group, `${yScale.label} ${numberText(b, 5)}`, `${xScale.label} ${numberText(a, 5)}`, ...lines].join("\n");
    return [{ x: a, y: b, low: b, high: b, step: NaN, group, title }];
  });
}

const others = { name: "others", ink: { color: "currentColor", dash: "", symbol: "circle" } } as const;

// Groups in their order, each with its ink; those beyond what can be told apart are drawn alike. The inks are of all rows, so that a
// filter leaves them as they are.
function groupsOf(view: SweepView): { name: string; ink: Ink }[] {
  const place = view.place(view.choice.color);
  const names = [...new Set(view.sweep.rows.map((row) => String(row[place] ?? "—")))].sort(naturally);
  return names.slice(0, tellApart).map((name, i) => ({ name, ink: ink(i) }));
}

const isFrontier = ({ choice }: SweepView): boolean => choice.y.includes("loss") && choice.x.includes("bound");

function linesOf(view: SweepView): Line[] {
  const dots = near(view, dotsOf(view));
  const groups = groupsOf(view);
  const known = new Set(groups.map(({ name }) => name));
  const cloud = (own: Dot[]) => ({ points: own, titles: own.map((dot) => dot.title), noLine: true, dots: true, radius: 3 });
  return [
    { ...others, ...cloud(dots.filter((dot) => !known.has(dot.group))), dotOpacity: 0.3 },
    ...groups.flatMap((group): Line[] => {
      const own = dots.filter((dot) => dot.group === group.name);
      const best = isFrontier(view) ? frontier(own, (dot) => dot.x, (dot) => dot.y) : [];
      return [{ ...group, points: best, faint: false, steps: true, titles: best.map((dot) => dot.title) },
        { ...group, ...cloud(own), dotOpacity: 0.55 }];
    }),
  ];
}

// What is drawn: all, or what lies within the fences on both axes as they are drawn.
function near(view: SweepView, dots: Dot[]): Dot[] {
  if (view.choice.all || dots.length < 8) return dots;
  const keeps = (name: string, value: (dot: Dot) => number) => {
    const placed = scaleOf(view, name).log ? (dot: Dot) => Math.log10(value(dot)) : value;
    const [low, high] = fences(dots.map(placed));
    return (dot: Dot) => placed(dot) >= low && placed(dot) <= high;
  };
  const [keepsX, keepsY] = [keeps(view.choice.x, (dot) => dot.x), keeps(view.choice.y, (dot) => dot.y)];
  return dots.filter((dot) => keepsX(dot) && keepsY(dot));
}

function draw(view: SweepView, width: number): SVGSVGElement | null {
  const [x, y] = [scaleOf(view, view.choice.x), scaleOf(view, view.choice.y)];
  return linesChart(linesOf(view), {
    width, height: narrow(width) ? 320 : 440, xLabel: x.label, yLabel: y.label, logX: x.log, logY: y.log, nearest: true,
  });
}

function legend(view: SweepView): LegendEntry[] {
  const shown = new Set(dotsOf(view).map((dot) => dot.group));
  return groupsOf(view).filter(({ name }) => shown.has(name)).map((group) => ({ ...group, line: isFrontier(view), dot: true }));
}

function controls(view: SweepView): HTMLElement {
  const names = (keep: (number: boolean) => boolean): [string, string][] =>
    view.sweep.columns.filter((column) => keep(column.number)).map(({ name }) => [name, name]);
  const filter = h("input", {
    type: "search", placeholder: "group=normalize loss<1.7", "aria-label": `Filter of ${view.sweep.name}`,
    input: () => view.choose({ filter: filter.value }),
  });
  return h("div", { class: "controls" },
    select("x", names((number) => number), view.choice.x, (x) => view.choose({ x })),
    select("y", names((number) => number), view.choice.y, (y) => view.choose({ y })),
    select("colour", names(() => true), view.choice.color, (color) => view.choose({ color })),
    h("label", { class: "control wide" }, "filter", filter),
    checkbox("far-out runs too", view.choice.all, (all) => view.choose({ all })));
}

function countOf(view: SweepView): string {
  const dots = dotsOf(view);
  const left = dots.length - near(view, dots).length;
  return `${view.rows().length} of ${view.sweep.rows.length} runs${left ? `; ${left} lie far out and are not drawn` : ""}`;
}

export function sweepSection(store: Store, sweep: Sweep): HTMLElement {
  const view = new SweepView(store, sweep);
  return section(`Sweep: ${sweep.name}`,
    controls(view),
    h("p", { class: "count", role: "status" }, store.part(() => document.createTextNode(countOf(view)))),
    chart(store, {
      title: `Frontier: ${sweep.name}`,
      note: "Each dot is a run. Lines join the runs that no other of their colour beats in both loss and bound.",
      draw: (width) => draw(view, width),
      legend: () => legend(view),
    }),
    chart(store, {
      title: `Settings side by side: ${sweep.name}`,
      note: "A line is a run, from setting to setting to how it ended; the strongest have the lowest loss. A dash below an axis: it has no such setting. Point at a line to see its run.",
      draw: (width) => parallel(view, width),
      legend: () => [],
    }),
    sweepTable(view));
}
