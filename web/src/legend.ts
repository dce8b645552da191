// What a chart's colours, dashes and shapes stand for: as a list beside a chart on the page, and inside a picture that stands alone.
import type { Ink } from "./colors";
import { h } from "./dom";

export interface LegendEntry {
  name: string;
  ink: Ink;
  line?: boolean;
  dot?: boolean;
}

type SvgNames = keyof SVGElementTagNameMap;

export function svg<K extends SvgNames>(tag: K, attributes: Record<string, string | number>, ...children: Node[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

const outlines: Record<Ink["symbol"], string> = {
  circle: "M-4,0A4,4,0,1,1,4,0A4,4,0,1,1,-4,0Z",
  square: "M-3.5,-3.5H3.5V3.5H-3.5Z",
  triangle: "M0,-4.5L4.5,3.5H-4.5Z",
  diamond: "M0,-5L3.6,0L0,5L-3.6,0Z",
};

export const sampleWidth = 24;

// 24 wide, around the height y.
export function sample({ ink, line, dot }: LegendEntry, x: number, y: number): SVGGElement {
  const group = svg("g", { transform: `translate(${x},${y})` });
  if (line) {
    group.append(svg("line", { x1: 0, x2: sampleWidth, y1: 0, y2: 0, stroke: ink.color, "stroke-width": 3,
      "stroke-dasharray": ink.dash || "none" }));
  }
  if (dot) group.append(svg("path", { d: outlines[ink.symbol], fill: ink.color, transform: `translate(${sampleWidth / 2},0)` }));
  return group;
}

export const legendList = (entries: LegendEntry[]): HTMLElement =>
  h("ul", { class: "legend" }, ...entries.map((entry) =>
    h("li", {}, svg("svg", { width: sampleWidth + 2, height: 14, "aria-hidden": "true" }, sample(entry, 1, 7)), entry.name)));
