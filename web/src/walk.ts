// Where the bound goes: the walk from the input to the logits, layer by layer, as the certificate states it.
import * as Plot from "@observablehq/plot";
import { chart } from "./chart";
import type { Run } from "./data";
import { h, section, type Table } from "./dom";
import { boundText, numberText } from "./format";
import { exponentTicks, narrow } from "./lines";
import type { Store } from "./store";

interface Place {
  layer: string;
  run: Run;
  lipschitz: number; // log10, after the layer
  lipschitzText: string;
  activationText: string;
  activation: number;
  stretch: number; // log10 of the layer's own
  share: number;
  title: string;
}

function places(run: Run): Place[] {
  let before = 0;
  return run.certificate!.layers.map((layer) => {
    const stretch = layer.log10Lipschitz - before;
    before = layer.log10Lipschitz;
    const share = layer.share ?? 0;
    const [lipschitzText, activationText] = [boundText(layer.log10Lipschitz, layer.lipschitz), boundText(layer.log10Activation, layer.activation)];
    return {
      layer: layer.name, run, lipschitz: layer.log10Lipschitz, lipschitzText, activation: layer.log10Activation, activationText, stretch, share,
      title: `${run.name}\n${layer.name}\nstretch so far ${lipschitzText}\nthis layer × ${numberText(10 ** stretch)}` +
        `\nactivation ${activationText}\nshare of log L ${(100 * share).toFixed(1)} %`,
    };
  });
}

const short = (layer: string): string => layer.replace(/^model\./, "").replace(/^layers\.(\d+)$/, "layer $1").replace(/^layers\./, "");

function panel(store: Store, all: Place[], key: "lipschitz" | "activation" | "share", label: string, width: number,
               names: boolean): SVGSVGElement {
  const layers = [...new Set(all.map((place) => place.layer))];
  const runs = [...new Set(all.map((place) => place.run))];
  const finite = all.filter((place) => Number.isFinite(place[key]));
  const asShare = key === "share";
  const axis = exponentTicks(finite.map((place) => place[key]), true);
  const marks = runs.flatMap((run, i): Plot.Markish[] => {
    const own = finite.filter((place) => place.run === run);
    const { color, dash } = store.inkOf(run);
    const dy = asShare ? 6 * (i - (runs.length - 1) / 2) : 0;
    const dots = Plot.dot(own, { x: key, y: "layer", fill: color, r: 4, dy });
    if (asShare) return [Plot.ruleY(own, { x1: 0, x2: key, y: "layer", stroke: color, strokeWidth: 5, strokeOpacity: 0.6, dy }), dots];
    return [Plot.line(own, { x: key, y: "layer", stroke: color, strokeWidth: 1.5, strokeDasharray: dash || "none" }), dots];
  });
  return Plot.plot({
    width,
    height: 62 + Math.max(22, 7 * runs.length + 8) * layers.length,
    marginLeft: names ? 150 : 14,
    marginRight: 18,
    marginTop: 34,
    marginBottom: 10,
    x: {
      label, axis: "top", grid: true, nice: asShare, inset: asShare ? 0 : 8,
      ticks: asShare ? 4 : axis.length ? axis : 4,
      tickFormat: asShare ? "%" : (exponent: number) => (Math.abs(exponent) < 5 ? String(Number((10 ** exponent).toPrecision(2))) : `10^${exponent}`),
    },
    y: { domain: layers, label: null, axis: names ? "left" : null, type: "point", padding: 0.5, tickFormat: short },
    marks: [
      Plot.gridY({ strokeOpacity: 0.06 }),
      asShare ? Plot.ruleX([0], { strokeOpacity: 0.4 }) : null,
      ...marks,
      Plot.tip(finite, Plot.pointer({ x: key, y: "layer", title: "title" })),
    ],
  }) as SVGSVGElement;
}

function draw(store: Store, width: number): HTMLElement | null {
  const all = store.shown().filter((run) => run.certificate?.layers.length).flatMap(places);
  if (!all.length) return null;
  const stacked = width < 760;
  const rest = Math.floor((width - 150) / 3);
  const widths = stacked ? [width, width, width] : [rest + 150, rest, rest];
  const kinds = [["lipschitz", "stretch so far"], ["activation", "activation"], ["share", "share of log L"]] as const;
  return h("div", { class: narrow(width) || stacked ? "stack" : "row" },
    ...kinds.map(([key, label], i) => panel(store, all, key, label, widths[i]!, stacked || i === 0)));
}

function numbers(store: Store): Table {
  const all = store.shown().filter((run) => run.certificate).flatMap(places);
  return {
    head: ["run", "after", "stretch so far", "this layer", "activation", "share of log L"],
    rows: all.map((place) => [place.run.name, place.layer, place.lipschitzText, numberText(10 ** place.stretch),
      place.activationText, `${(100 * place.share).toFixed(1)} %`]),
  };
}

export function walk(store: Store): HTMLElement | null {
  if (!store.data.runs.some((run) => run.certificate?.layers.length)) return null;
  return section("Where the bound goes", chart(store, {
    title: "The walk from the input to the logits",
    note: "After every layer: by how much a change of the input may have been stretched so far, how large an activation may be, and the layer's share of log L (negative where it shrinks).",
    draw: (width) => draw(store, width),
    numbers: () => numbers(store),
  }));
}
