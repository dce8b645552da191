// A sweep: the frontier of loss against bound, all settings side by side, and a table to sort and filter. The filter holds for all three.
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import { ink } from "./colors";
import type { Cell, Sweep } from "./data";
import { h, section, select } from "./dom";
import { filterOf, frontier } from "./filter";
import { numberText } from "./format";
import { narrow } from "./lines";
import { parallel } from "./parallel";
import { Store } from "./store";
import { sweepTable } from "./sweep_table";

interface Choice {
  x: string;
  y: string;
  color: string;
  filter: string;
}

interface Dot {
  x: number;
  y: number;
  group: string;
  title: string;
}

const most = 21; // kinds that are told apart by colour and shape
const symbols = ["circle", "square", "triangle"] as const;

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

function dotsOf(view: SweepView): Dot[] {
  const [x, y, color] = [view.place(view.choice.x), view.place(view.choice.y), view.place(view.choice.color)];
  const settings = view.sweep.columns.flatMap((column, i) => (column.setting ? [{ name: column.name, i }] : []));
  return view.rows().flatMap((row) => {
    const [a, b] = [row[x], row[y]];
    if (typeof a !== "number" || typeof b !== "number") return [];
    const group = String(row[color] ?? "—");
    const lines = settings.filter(({ i }) => row[i] !== null).map(({ name, i }) => `${name} ${row[i]}`);
    const title = [group, `${view.choice.y} ${numberText(b, 5)}`, `${view.choice.x} ${numberText(a, 5)}`, ...lines].join("\n");
    return [{ x: a, y: b, group, title }];
  });
}

function legend(groups: string[]): HTMLElement {
  return h("ul", { class: "legend" }, ...groups.map((group, i) => {
    const mark = Plot.plot({ width: 14, height: 14, margin: 0, axis: null, x: { domain: [0, 1] }, y: { domain: [0, 1] },
      marks: [Plot.dot([0], { x: 0.5, y: 0.5, r: 4.5, fill: ink(i).color, symbol: symbols[Math.floor(i / 7) % 3] })] });
    mark.setAttribute("aria-hidden", "true");
    return h("li", {}, mark, group);
  }));
}

function draw(view: SweepView, width: number): HTMLElement | null {
  const dots = dotsOf(view);
  if (!dots.length) return null;
  const groups = [...new Set(dots.map((dot) => dot.group))].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).slice(0, most);
  const showsFrontier = view.choice.y.includes("loss") && view.choice.x.includes("bound");
  const marks = groups.flatMap((group, i): Plot.Markish[] => {
    const own = dots.filter((dot) => dot.group === group);
    const { color, dash } = ink(i);
    const best = frontier(own, (dot) => dot.x, (dot) => dot.y);
    return [
      showsFrontier ? Plot.line(best, { x: "x", y: "y", stroke: color, strokeWidth: 1.6, strokeDasharray: dash || "none", curve: "step-after" }) : null,
      Plot.dot(own, { x: "x", y: "y", fill: color, fillOpacity: 0.55, r: 3, symbol: symbols[Math.floor(i / 7) % 3] }),
    ];
  });
  const others = dots.filter((dot) => !groups.includes(dot.group));
  const picture = Plot.plot({
    width, height: narrow(width) ? 320 : 440, marginLeft: 56,
    x: { label: view.choice.x, nice: true, ticks: narrow(width) ? 4 : 8 },
    y: { label: view.choice.y, grid: true, nice: true },
    marks: [Plot.dot(others, { x: "x", y: "y", fill: "currentColor", fillOpacity: 0.3, r: 2 }), ...marks,
      Plot.tip(dots, Plot.pointer({ x: "x", y: "y", title: "title" }))],
  });
  return h("div", {}, legend(groups), picture);
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
    h("label", { class: "control wide" }, "filter", filter));
}

export function sweepSection(store: Store, sweep: Sweep): HTMLElement {
  const view = new SweepView(store, sweep);
  return section(`Sweep: ${sweep.name}`,
    controls(view),
    h("p", { class: "count", role: "status" }, store.part(() => document.createTextNode(
      `${view.rows().length} of ${sweep.rows.length} runs`))),
    chart(store, {
      title: `Frontier: ${sweep.name}`,
      note: "Each dot is a run. Lines join the runs that no other of their colour beats in both loss and bound.",
      draw: (width) => draw(view, width),
    }),
    chart(store, {
      title: `Settings side by side: ${sweep.name}`,
      note: "A line is a run, from setting to setting to how it ended; the darkest have the lowest loss.",
      draw: (width) => parallel(view, width),
    }),
    sweepTable(view));
}
