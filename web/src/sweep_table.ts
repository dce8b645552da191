// The table of a sweep: a click on a heading sorts by it, the sweep's filter holds, and long tables show a part at a time.
import type { Cell } from "./data";
import { h } from "./dom";
import { sorted } from "./filter";
import { numberText } from "./format";
import type { SweepView } from "./sweep";

const part = 50;

export function sweepTable(view: SweepView): HTMLElement {
  const { columns, name } = view.sweep;
  const varies = columns.map((_, i) => new Set(view.sweep.rows.map((row) => row[i])).size > 1 || view.sweep.rows.length === 1);
  const shown = columns.flatMap((column, i) => (varies[i] && column.name !== "commit" ? [i] : []));
  let by = Math.max(0, view.place("loss"));
  let descending = false;
  let count = part;
  const sortBy = (place: number) => {
    descending = by === place && !descending;
    by = place;
    fill();
  };
  const headings = shown.map((place) => h("th", { scope: "col" },
    h("button", { type: "button", click: () => sortBy(place) }, columns[place]!.name)));
  const body = h("tbody");
  const more = h("button", { type: "button", class: "more", click: () => {
    count += 4 * part;
    fill();
  } }, "Show more");
  // A run of the same name on this page is linked to.
  const cellOf = (row: Cell[], place: number): Node => {
    const cell = row[place] ?? null;
    const run = columns[place]!.name === "key" ? view.store.data.runs.findIndex((known) => known.name === cell) : -1;
    const text = typeof cell === "number" ? numberText(cell, 5) : (cell ?? "");
    return h("td", { class: typeof cell === "number" ? "number" : "" }, run >= 0 ? h("a", { href: `#run-${run}` }, text) : text);
  };
  const fill = () => {
    headings.forEach((heading, i) => heading.setAttribute("aria-sort", shown[i] !== by ? "none" : descending ? "descending" : "ascending"));
    const rows = sorted(view.rows(), by, descending);
    body.replaceChildren(...rows.slice(0, count).map((row) => h("tr", {}, ...shown.map((place) => cellOf(row, place)))));
    more.hidden = rows.length <= count;
  };
  view.store.listen(fill);
  fill();
  return h("div", {}, h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": `Table of ${name}` },
    h("table", { class: "sortable" }, h("caption", { class: "hidden" }, `Results of ${name}`), h("thead", {}, h("tr", {}, ...headings)), body)), more);
}
