// Norms of the matrices against their caps over training: a panel for every kind of matrix, a line for every layer.
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import type { Run } from "./data";
import { checkbox, h, section, type Table } from "./dom";
import { naturally, numberText } from "./format";
import { narrow } from "./lines";
import { lastValue } from "./series";
import type { Store } from "./store";
import { capAt, kindOf } from "./weights";

interface NormPoint {
  kind: string;
  weight: string;
  run: string;
  step: number;
  norm: number;
  title: string;
}

function pointsOf(run: Run, asShare: boolean): NormPoint[] {
  return Object.keys(run.norms).sort(naturally).flatMap((weight) => {
    const series = run.norms[weight]!;
    return series.step.flatMap((step, i) => {
      const [norm, cap] = [series.value[i], capAt(run, weight, i)];
      if (norm === null || norm === undefined || (asShare && !cap)) return [];
      return [{
        kind: kindOf(weight), weight, run: run.name, step, norm: asShare ? norm / cap! : norm,
        title: `${run.name}\n${weight}\nnorm ${numberText(norm)}${cap ? `, cap ${numberText(cap)}` : ""}\nstep ${numberText(step)}`,
      }];
    });
  });
}

function draw(store: Store, width: number): SVGSVGElement | null {
  const { asShare } = store.view;
  const runs = store.shown().map((run) => ({ run, points: pointsOf(run, asShare) }));
  const all = runs.flatMap((entry) => entry.points);
  if (!all.length) return null;
  const kinds = [...new Set(all.map((point) => point.kind))];
  const columns = Math.min(kinds.length, narrow(width) ? 2 : width < 900 ? 3 : 4);
  const place = new Map(kinds.map((kind, i) => [kind, { fx: i % columns, fy: Math.floor(i / columns) }]));
  const facet = { fx: (p: { kind: string }) => place.get(p.kind)!.fx, fy: (p: { kind: string }) => place.get(p.kind)!.fy };
  const names = kinds.map((kind) => ({ kind }));
  return Plot.plot({
    width,
    height: 74 + 150 * Math.ceil(kinds.length / columns),
    marginLeft: 48,
    marginTop: 40,
    fx: { axis: null, padding: 0.08 },
    fy: { axis: null, padding: 0.16 },
    x: { label: "step", ticks: 3 },
    y: { label: asShare ? "norm ÷ cap" : "norm (RMS → RMS)", grid: true, nice: true, ticks: 4 },
    marks: [
      Plot.frame({ strokeOpacity: 0.2 }),
      asShare ? Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "3 3" }) : null,
      ...runs.map(({ run, points }) => Plot.lineY(points, {
        x: "step", y: "norm", z: "weight", ...facet, stroke: store.inkOf(run).color, strokeWidth: 1.5, strokeOpacity: 0.9,
        strokeDasharray: store.inkOf(run).dash || "none",
      })),
      Plot.text(names, { ...facet, text: "kind", frameAnchor: "top-left", dy: -13, fontWeight: 600 }),
      Plot.tip(all, Plot.pointer({ x: "step", y: "norm", ...facet, title: "title" })),
    ],
  }) as SVGSVGElement;
}

function numbers(store: Store): Table {
  const rows = store.shown().flatMap((run) => Object.keys(run.norms).sort(naturally).map((weight) => {
    const series = run.norms[weight]!;
    return [run.name, weight, numberText(lastValue(series), 6), numberText(capAt(run, weight, series.value.length - 1), 6)];
  }));
  return { head: ["run", "weight", "last norm", "cap"], rows };
}

export function norms(store: Store): HTMLElement | null {
  if (!store.data.runs.some((run) => Object.keys(run.norms).length)) return null;
  return section("Norms against caps",
    h("div", { class: "controls" }, checkbox("as a share of the cap", store.view.asShare, (asShare) => store.choose({ asShare }))),
    chart(store, {
      title: "Norms of the matrices",
      note: "A panel for every kind of matrix, a line for every layer. Norms are measured by power iteration, from below; what is proved stands in the certificate.",
      draw: (width) => draw(store, width),
      numbers: () => numbers(store),
    }));
}
