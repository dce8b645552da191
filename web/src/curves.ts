// Loss, accuracy and speed over training.
import { chart } from "./chart";
import type { Run } from "./data";
import { checkbox, h, section, select, type Table } from "./dom";
import { numberText } from "./format";
import { linesChart, type Line } from "./lines";
import { lastValue, points } from "./series";
import type { Store } from "./store";

function controls(store: Store): HTMLElement {
  const slider = h("input", {
    type: "range", min: 0, max: 0.99, step: 0.01, value: store.view.smoothing, "aria-label": "Smoothing of training curves",
    input: () => {
      shown.textContent = slider.value;
      store.choose({ smoothing: Number(slider.value) });
    },
  });
  const shown = h("output", {}, String(store.view.smoothing));
  return h("div", { class: "controls" },
    checkbox("logarithmic loss", store.view.logLoss, (logLoss) => store.choose({ logLoss })),
    checkbox("logarithmic steps", store.view.logX, (logX) => store.choose({ logX })),
    select("over", [["step", "steps"], ["seconds", "time"]], store.view.axis,
      (axis) => store.choose({ axis: axis === "seconds" ? "seconds" : "step" })),
    h("label", { class: "control" }, "smoothing", slider, shown));
}

// Training solid, validation dashed with dots; smoothed over the raw line.
function trainAndValidation(store: Store, train: string, validation: string): Line[] {
  const { axis, smoothing } = store.view;
  return store.shown().flatMap((run): Line[] => {
    const series = run.series[train];
    const raw: Line = { ...store.named(run), points: points(run, series, axis), faint: true };
    return [
      ...(smoothing > 0 ? [raw] : []),
      { ...store.named(run), points: points(run, series, axis, smoothing), label: "train", band: series?.low !== undefined && smoothing === 0 },
      { ...store.named(run), points: points(run, run.series[validation], axis), label: "validation", dash: "5 3", dots: true },
    ];
  });
}

function lastOf(store: Store, keys: string[]): Table {
  const cell = (run: Run, key: string) => numberText(lastValue(run.series[key]), 6);
  return { head: ["last value of", ...keys], rows: store.shown().map((run) => [run.name, ...keys.map((key) => cell(run, key))]) };
}

const xLabel = (store: Store): string => (store.view.axis === "step" ? "step" : "seconds of training");

export function curves(store: Store): HTMLElement {
  const rates = ["tokens_per_second", "images_per_second"];
  const thinned = () => store.data.runs.some((run) => run.series.loss?.lines_per_point);
  const common = (width: number) => ({ width, logX: store.view.logX, xLabel: xLabel(store) });
  return section("Training", controls(store), h("div", { class: "charts" },
    chart(store, {
      title: "Loss",
      note: "Training is solid, validation dashed with dots." +
        (thinned() ? " A point of a long run is the mean of several log lines, with the band from the smallest to the largest." : ""),
      draw: (width) => linesChart(trainAndValidation(store, "loss", "validation_loss"),
        { ...common(width), logY: store.view.logLoss, yLabel: "loss (nats)" }),
      numbers: () => lastOf(store, ["loss", "validation_loss"]),
    }),
    chart(store, {
      title: "Accuracy",
      draw: (width) => linesChart(trainAndValidation(store, "accuracy", "validation_accuracy"),
        { ...common(width), yLabel: "accuracy", yPercent: true, valueText: (value) => `${(100 * value).toFixed(2)} %` }),
      numbers: () => lastOf(store, ["accuracy", "validation_accuracy"]),
    }),
    chart(store, {
      title: "Speed",
      draw: (width) => linesChart(store.shown().flatMap((run) => rates.map((key): Line =>
        ({ ...store.named(run), points: points(run, run.series[key], store.view.axis, store.view.smoothing), label: key.replaceAll("_", " ") }))),
        { ...common(width), yLabel: "tokens or images per second", from0: true, height: 220 }),
      numbers: () => lastOf(store, rates),
    }),
    chart(store, {
      title: "Learning rate",
      draw: (width) => linesChart(store.shown().map((run): Line =>
        ({ ...store.named(run), points: points(run, run.series.learning_rate, store.view.axis) })),
        { ...common(width), yLabel: "learning rate", from0: true, height: 220 }),
      numbers: () => lastOf(store, ["learning_rate"]),
    })));
}
