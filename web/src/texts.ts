// What runs are made of and what they say: the recipe with what differs, samples, and the certificate with how to check it.
import type { Certificate, Run } from "./data";
import { checkbox, h, section, table } from "./dom";
import { boundText, naturally, numberText, shellWord } from "./format";
import type { Store } from "./store";

// Keys of which not all runs have the same value.
export function differing(runs: Run[]): Set<string> {
  const keys = new Set(runs.flatMap((run) => Object.keys(run.settings)));
  return new Set([...keys].filter((key) => new Set(runs.map((run) => run.settings[key])).size > 1));
}

export function recipe(store: Store): HTMLElement {
  const filter = h("input", { type: "search", placeholder: "key or value", "aria-label": "Filter of settings", input: () => store.changed() });
  const several = store.data.runs.length > 1;
  const rows = () => {
    const runs = store.shown();
    const different = differing(runs);
    const wanted = filter.value.trim().toLowerCase();
    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort(naturally)
      .filter((key) => !several || !store.view.onlyDifferent || different.has(key))
      .filter((key) => [key, ...runs.map((run) => run.settings[key] ?? "")].some((word) => word.toLowerCase().includes(wanted)));
    const cell = (run: Run, key: string) => h("span", { class: different.has(key) ? "differs" : "" }, run.settings[key] ?? "—");
    if (!keys.length) return h("p", {}, several && store.view.onlyDifferent ? "These runs have the same settings." : "No such setting.");
    return table({ head: ["key", ...runs.map((run) => run.name)], rows: keys.map((key) => [key, ...runs.map((run) => cell(run, key))]) }, "Settings");
  };
  return section("Recipe",
    h("div", { class: "controls" }, h("label", { class: "control" }, "filter", filter),
      several && checkbox("only what differs", store.view.onlyDifferent, (onlyDifferent) => store.choose({ onlyDifferent }))),
    store.part(rows));
}

export function samples(store: Store): HTMLElement | null {
  if (!store.data.runs.some((run) => run.samples.length)) return null;
  return section("Samples", store.part(() => h("div", {}, ...store.shown().filter((run) => run.samples.length).map((run) =>
    h("div", {}, h("h3", {}, run.name), ...run.samples.map((sample) =>
      h("figure", { class: "sample" }, h("pre", { tabindex: 0, "aria-label": `Sample of ${run.name}` }, h("b", {}, sample.prompt), sample.text),
        h("figcaption", {}, sample.about))))))));
}

function copied(text: string): HTMLElement {
  const button = h("button", { type: "button", click: async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  } }, "copy");
  return h("div", { class: "command" }, h("code", {}, text), button);
}

function matricesOf(certificate: Certificate): HTMLElement {
  const rows = certificate.matrices.map((matrix) => [matrix.name, matrix.shape, numberText(matrix.norm, 8), matrix.method]);
  return h("details", {}, h("summary", {}, `What proves it: numbers about ${rows.length} weights`),
    table({ head: ["weight", "shape", "number", "method"], rows }, "Numbers that prove the bound"));
}

function certificateOf(run: Run, certificate: Certificate): HTMLElement {
  const folder = run.folder.replace(/\/+$/, "");
  const file = shellWord(`${folder}/certificate.json`);
  return h("div", { class: "certificate" },
    h("h3", {}, run.name),
    h("p", {}, `Two inputs of norm up to ${numberText(certificate.domainRadius)} that differ by δ have logits that differ by at most `,
      h("strong", {}, boundText(certificate.log10Lipschitz, certificate.lipschitz)), " · δ (RMS, the largest over tokens)."),
    h("div", { class: "check", role: "group", "aria-label": `Check it yourself: ${run.name}` },
      h("h4", {}, "Check it yourself"),
      h("p", {}, "This page shows what the certificate states and proves nothing. These prove it again from the weights; the second shares no code with the first:"),
      copied(`bridle check ${file}`),
      copied(`scripts/check_certificate.py ${file}`),
      h("p", {}, `The certificate is about the weights (${certificate.dtype}) with this SHA-256, which the next command prints again:`),
      h("p", {}, h("code", { class: "digest" }, certificate.sha256)),
      copied(`sha256sum ${shellWord(`${folder}/model.safetensors`)}`)),
    matricesOf(certificate));
}

export function certificates(store: Store): HTMLElement | null {
  if (!store.data.runs.some((run) => run.certificate)) return null;
  return section("Certificate", store.part(() => h("div", { class: "charts" },
    ...store.shown().flatMap((run) => (run.certificate ? [certificateOf(run, run.certificate)] : [])))));
}
