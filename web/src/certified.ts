// Predictions that cannot change, and accuracy under attack beside what is certified, against the size of the perturbation.
import { chart } from "./chart";
import type { Run } from "./data";
import { h, section, type Table } from "./dom";
import { certifiedText, numberText, percentText } from "./format";
import { linesChart, type Line } from "./lines";
import type { Point } from "./series";
import type { Store } from "./store";

const at = (x: number, y: number): Point => ({ x, y, low: y, high: y, step: NaN });
const dashOf: Record<string, string> = { exact: "", float32: "6 3", bfloat16: "2 3" };

function predictionLines(store: Store, run: Run, key: "certified" | "certifiedAccuracy"): Line[] {
  const functions = [...new Set(run.predictions?.shares.map((share) => share.function))];
  return functions.map((name) => ({
    ...store.named(run), label: `${name}:`, dash: dashOf[name] || undefined, dots: true,
    points: run.predictions!.shares.filter((share) => share.function === name).map((share) => at(share.epsilon, share[key])),
  }));
}

const attackLines = (store: Store, run: Run): Line[] => run.attack ? [
  { ...store.named(run), label: "under attack", dots: true, points: run.attack.points.map((p) => at(p.epsilon, p.accuracy)) },
  { ...store.named(run), label: "certified", dash: "5 3", dots: true, points: run.attack.points.map((p) => at(p.epsilon, p.certifiedAccuracy)) },
] : [];

// Of predictions every ε is positive, and they span decades.
const shared = (width: number, yLabel: string, logX = false) =>
  ({ width, logX, xLabel: "size of the perturbation, ε", yLabel, yPercent: true, from0: true, valueText: (value: number) => percentText(value) });

function predictionNumbers(store: Store): Table {
  const rows = store.shown().flatMap((run) => (run.predictions?.shares ?? []).map((share) =>
    [run.name, share.function, numberText(share.epsilon), certifiedText(share.certified), certifiedText(share.certifiedAccuracy)]));
  return { head: ["run", "function", "ε", "cannot change", "and right"], rows };
}

function attackNumbers(store: Store): Table {
  const rows = store.shown().flatMap((run) => (run.attack?.points ?? []).map((point) =>
    [run.name, numberText(point.epsilon), percentText(point.accuracy), certifiedText(point.certifiedAccuracy)]));
  return { head: ["run", "ε", "under attack", "certified"], rows };
}

function pictures(store: Store): HTMLElement | null {
  const figures = store.shown().filter((run) => run.attackPicture).map((run) =>
    h("figure", {}, h("h3", {}, `Attacked images: ${run.name}`),
      h("img", { src: `data:image/png;base64,${run.attackPicture}`, class: "pixels",
        alt: `Images of the validation part as they are, and at their worst under attack, one column for each ε; run ${run.name}` })));
  return figures.length ? h("div", { class: "charts" }, ...figures) : null;
}

export function certified(store: Store): HTMLElement | null {
  const { runs } = store.data;
  const predicts = runs.some((run) => run.predictions);
  const attacked = runs.some((run) => run.attack);
  if (!predicts && !attacked) return null;
  return section("Predictions that cannot change",
    h("div", { class: "charts" },
      predicts && chart(store, {
        title: "Predictions that cannot change",
        note: "Solid: of the network in exact arithmetic. Dashed: of what is computed in float32; dotted: in bfloat16.",
        draw: (width) => linesChart(store.shown().flatMap((run) => predictionLines(store, run, "certified")), shared(width, "share of predictions", true)),
        numbers: () => predictionNumbers(store),
      }),
      predicts && chart(store, {
        title: "Certified accuracy",
        note: "The share that is right and cannot change.",
        numbers: () => predictionNumbers(store),
        draw: (width) => linesChart(store.shown().flatMap((run) => predictionLines(store, run, "certifiedAccuracy")), shared(width, "certified accuracy", true)),
      }),
      attacked && chart(store, {
        title: "Accuracy under attack",
        note: "Solid: accuracy that the attacks left. Dashed: certified accuracy. The true accuracy under the worst perturbation lies between.",
        draw: (width) => linesChart(store.shown().flatMap((run) => attackLines(store, run)), shared(width, "accuracy")),
        numbers: () => attackNumbers(store),
      })),
    store.part(() => pictures(store)));
}
