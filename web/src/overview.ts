// How every run ended, and which of them the charts show.
import type { Run } from "./data";
import { h, section, table } from "./dom";
import { sample, svg } from "./legend";
import { boundText, durationText, numberText, percentText } from "./format";
import type { Store } from "./store";

// A stroke as the charts draw this run.
const swatch = (store: Store, run: Run): SVGSVGElement =>
  svg("svg", { width: 26, height: 12, "aria-hidden": "true" }, sample({ ...store.named(run), line: true }, 1, 6));

export function runChooser(store: Store): HTMLElement {
  return store.part(() => {
    const boxes = store.data.runs.map((run) => {
      const box = h("input", { type: "checkbox", change: () => store.show(run.name, box.checked) });
      box.checked = !store.hidden.has(run.name);
      return h("label", { class: "run" }, box, swatch(store, run), h("span", { class: "name" }, run.name));
    });
    return boxes.length > 1 ? h("fieldset", { class: "runs" }, h("legend", {}, "Runs"), ...boxes) : null;
  });
}

function row(store: Store, run: Run): (string | Node)[] {
  const name = h("span", { class: "named", id: `run-${store.data.runs.indexOf(run)}` }, swatch(store, run), run.name);
  const budget = Number(run.settings["constraint.lipschitz"] ?? 0);
  return [
    name,
    run.info.status || "—",
    numberText(run.last.step),
    numberText(run.last.validation_loss, 5),
    percentText(run.last.validation_accuracy),
    run.certificate ? boundText(run.certificate.log10Lipschitz, run.certificate.lipschitz) : boundText(run.last.log10_lipschitz, run.last.lipschitz),
    run.certificate ? "certificate" : run.last.log10_lipschitz !== undefined ? "metrics" : "—",
    budget > 0 ? numberText(budget) : "—",
    numberText(run.certificate?.observed),
    durationText(run.last.seconds),
  ];
}

export function overview(store: Store): HTMLElement {
  return section("Runs", store.part(() => {
    const head = ["run", "status", "step", "validation loss", "accuracy", "Lipschitz bound", "from", "budget", "observed stretch", "time"];
    const problems = store.data.runs.flatMap((run) => run.problems.map((problem) => h("li", {}, `${run.name}: ${problem}`)));
    return h("div", {}, table({ head, rows: store.data.runs.map((run) => row(store, run)) }, "How the runs ended"),
      problems.length ? h("div", { class: "warning", role: "note" }, h("strong", {}, "Not all could be read"), h("ul", {}, ...problems)) : null);
  }));
}
