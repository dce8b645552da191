// A chart as a figure: heading, picture, note, its numbers as a table, and the picture as an SVG file. It is drawn when it comes near
// the screen, and again when its width or the reader's choice changes.
import { h, table, type Table } from "./dom";
import { legendList, type LegendEntry } from "./legend";
import { standalone } from "./standalone";
import type { Store } from "./store";

export type Drawing = SVGSVGElement | HTMLElement | null;

export interface ChartOptions {
  title: string;
  note?: string;
  draw: (width: number) => Drawing; // null: there is nothing to show
  numbers?: () => Table;
  legend?: () => LegendEntry[]; // the runs, by default
}

const near = new Map<Element, () => void>();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) near.get(entry.target)?.();
}, { rootMargin: "400px" });
const resizer = new ResizeObserver((entries) => {
  for (const entry of entries) near.get(entry.target)?.();
});

// Before the page is made anew.
export function forgetCharts(): void {
  near.clear();
  watcher.disconnect();
  resizer.disconnect();
}

// All pictures of a chart in one file, where they stand on the page.
function save(title: string, body: HTMLElement, entries: LegendEntry[]): void {
  const pictures = [...body.querySelectorAll<SVGSVGElement>("svg")];
  const boxes = pictures.map((picture) => picture.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const placed = pictures.map((picture, i) => ({ picture, x: boxes[i]!.left - left, y: boxes[i]!.top - top }));
  const file = new XMLSerializer().serializeToString(standalone(title, placed, entries));
  const address = URL.createObjectURL(new Blob([file], { type: "image/svg+xml" }));
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
  h("a", { href: address, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const runsOf = (store: Store): LegendEntry[] =>
  store.data.runs.length > 1 ? store.shown().map((run) => ({ ...store.named(run), line: true })) : [];

export function chart(store: Store, { title, note, draw, numbers, legend = () => runsOf(store) }: ChartOptions): HTMLElement {
  const body = h("div", { class: "picture" });
  const entries = h("div");
  const figure = h("figure", {},
    h("div", { class: "heading" }, h("h3", {}, title),
      h("button", { type: "button", "aria-label": `Save ${title} as SVG`, click: () => save(title, body, legend()) }, "SVG")),
    entries, body, note ? h("figcaption", {}, note) : null);
  let width = 0;
  let stale = true;
  const isNear = () => {
    const box = body.getBoundingClientRect();
    return box.top < innerHeight + 400 && box.bottom > -400;
  };
  const redraw = () => {
    const now = Math.floor(body.clientWidth);
    if (now === 0 || (!stale && now === width) || !isNear()) return;
    [width, stale] = [now, false];
    const picture = draw(now);
    figure.hidden = picture === null;
    body.replaceChildren(...(picture ? [picture] : []));
    entries.replaceChildren(...(picture && legend().length ? [legendList(legend())] : []));
    for (const svg of body.querySelectorAll("svg")) {
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", title);
    }
  };
  near.set(body, redraw);
  watcher.observe(body);
  resizer.observe(body);
  store.listen(() => {
    stale = true;
    figure.hidden = false; // whether there is something to show is known once it is drawn
    redraw();
  });
  if (numbers) figure.append(numbersOf(store, title, numbers));
  return figure;
}

// The table that stands behind a picture, made when it is opened.
function numbersOf(store: Store, title: string, numbers: () => Table): HTMLElement {
  const place = h("div");
  const details = h("details", {}, h("summary", {}, "Numbers"), place);
  const fill = () => {
    if (details.open) place.replaceChildren(table(numbers(), title));
  };
  details.addEventListener("toggle", fill);
  store.listen(fill);
  return details;
}
