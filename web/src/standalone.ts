// A picture that stands alone: charts with a title and a legend in one SVG file. It is dark where the reader's system is.
import { sample, sampleWidth, svg, type LegendEntry } from "./legend";

export interface Placed {
  picture: SVGSVGElement;
  x: number;
  y: number;
}

const margin = 12;
const rowHeight = 18;
const letter = 6.4; // the width of a letter at 12 px, a little more than most have

const style = [
  "svg { color: #1b1f24; --plot-background: #ffffff; font-family: system-ui, sans-serif; } .paper { fill: #ffffff; }",
  "text, tspan { white-space: pre; }",
  "@media (prefers-color-scheme: dark) { svg { color: #e6e9ee; --plot-background: #14171c; } .paper { fill: #14171c; } }",
].join(" ");

const widthOf = (entry: LegendEntry): number => sampleWidth + 6 + letter * entry.name.length + 16;

function text(content: string, attributes: Record<string, string | number>): SVGTextElement {
  const element = svg("text", { fill: "currentColor", "text-anchor": "start", ...attributes });
  element.textContent = content;
  return element;
}

// Entries in columns, and the height that they take.
function legendOf(entries: LegendEntry[], top: number, width: number): { rows: SVGGElement; height: number } {
  const rows = svg("g", { "font-size": 12 });
  if (!entries.length) return { rows, height: 0 };
  const columnWidth = Math.max(...entries.map(widthOf));
  const columns = Math.max(1, Math.floor((width - 2 * margin) / columnWidth));
  entries.forEach((entry, i) => {
    const [x, y] = [margin + columnWidth * (i % columns), top + rowHeight * (Math.floor(i / columns) + 0.5)];
    rows.append(sample(entry, x, y), text(entry.name, { x: x + sampleWidth + 6, y: y + 4 }));
  });
  return { rows, height: rowHeight * Math.ceil(entries.length / columns) + 8 };
}

const measured = ["d", "transform", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"];

// A hundredth of a pixel is enough; what waits for a pointer is left out.
function tidy(element: Element): void {
  for (const child of [...element.children]) {
    const idle = child.tagName === "style" || (child.tagName === "g" && !child.hasChildNodes()) || child.getAttribute("aria-label") === "tip";
    if (idle) {
      child.remove();
      continue;
    }
    for (const name of measured) {
      const value = child.getAttribute(name);
      if (value) child.setAttribute(name, value.replace(/-?\d+\.\d{3,}(e-?\d+)?/g, (number) => String(Number(Number(number).toFixed(2)))));
    }
    tidy(child);
  }
}

function placed({ picture, x, y }: Placed, top: number): SVGGElement {
  const group = svg("g", { transform: `translate(${x},${y + top})` });
  for (const name of ["text-anchor", "font-size", "font-family", "fill", "style"]) {
    const value = picture.getAttribute(name);
    if (value) group.setAttribute(name, value);
  }
  const copy = picture.cloneNode(true) as SVGSVGElement;
  group.append(...copy.childNodes);
  tidy(group);
  return group;
}

const sizeOf = (picture: SVGSVGElement, name: "width" | "height"): number => Number(picture.getAttribute(name) ?? 0);

export function standalone(title: string, pictures: Placed[], entries: LegendEntry[]): SVGSVGElement {
  const width = Math.max(...pictures.map(({ picture, x }) => x + sizeOf(picture, "width")));
  const titleHeight = title ? 32 : 0;
  const legend = legendOf(entries, titleHeight, width);
  const top = titleHeight + legend.height;
  const height = top + Math.max(...pictures.map(({ picture, y }) => y + sizeOf(picture, "height")));
  const [name, look] = [svg("title", {}), svg("style", {})];
  name.textContent = title;
  look.textContent = style;
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" }, name, look,
    svg("rect", { class: "paper", width, height }),
    text(title, { x: margin, y: 22, "font-size": 15, "font-weight": 600 }),
    legend.rows, ...pictures.map((picture) => placed(picture, top)));
}
