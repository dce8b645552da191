// A chart as a figure: heading, picture, note, its numbers as a table, and the picture as an SVG file. It is drawn when it comes near
// the screen, and again when its width or the reader's choice changes.
import { h, table, type Table } from "./dom";
import type { Store } from "./store";

export type Drawing = SVGSVGElement | HTMLElement | null;

export interface ChartOptions {
  title: string;
  note?: string;
  draw: (width: number) => Drawing; // null: there is nothing to show
  numbers?: () => Table;
}

const near = new Map<Element, () => void>();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) near.get(entry.target)?.();
}, { rootMargin: "400px" });
const resizer = new ResizeObserver((entries) => {
  for (const entry of entries) near.get(entry.target)?.();
});

// The file stands for itself: it has the colours of a light page.
function saved(picture: SVGSVGElement): string {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", "color: #1b1f24; background: white; font: 12px system-ui, sans-serif;");
  return new XMLSerializer().serializeToString(copy);
}

function save(title: string, body: HTMLElement): void {
  body.querySelectorAll<SVGSVGElement>("svg").forEach((picture, i) => {
    const address = URL.createObjectURL(new Blob([saved(picture)], { type: "image/svg+xml" }));
    const name = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "_")}${i ? `_${i + 1}` : ""}.svg`;
    h("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
}

export function chart(store: Store, { title, note, draw, numbers }: ChartOptions): HTMLElement {
  const body = h("div", { class: "picture" });
  const figure = h("figure", {},
    h("div", { class: "heading" }, h("h3", {}, title),
      h("button", { type: "button", "aria-label": `Save ${title} as SVG`, click: () => save(title, body) }, "SVG")),
    body, note ? h("figcaption", {}, note) : null);
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
