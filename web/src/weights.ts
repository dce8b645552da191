// Weights: their kind by their name, and the cap that a run keeps them below.
import type { Run, Series } from "./data";

// model.layers.3.self_attn.q_proj.weight → q_proj; model.layers.3.weight → layer.
export function kindOf(weight: string): string {
  const parts = weight.replace(/\.weight$/, "").split(".").filter((part) => !/^\d+$/.test(part));
  const last = parts.at(-1) ?? weight;
  return last === "layers" ? "layer" : last;
}

// Budgets move caps, and the metrics have them; else one cap holds for all.
export function capAt(run: Run, weight: string, index: number): number | null {
  const moved: Series | undefined = run.caps[weight];
  if (moved) return moved.value[index] ?? null;
  const fixed = Number(run.settings["constraint.sigma_max"]);
  const free = ["none", "weight_decay", "spectral_weight_decay"].includes(run.settings["constraint.method"] ?? "");
  return fixed > 0 && !free && !Object.keys(run.caps).length ? fixed : null;
}
