// Elements by name, attributes and children. Texts become text nodes, never markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

export interface Table {
  head: string[];
  rows: (string | Node)[][];
}

// A table that scrolls by itself where the page is narrow; the first cell of a row is its heading.
export function table({ head, rows }: Table, caption: string): HTMLElement {
  const headings = head.map((name) => h("th", { scope: "col" }, name));
  const lines = rows.map((row) =>
    h("tr", {}, ...row.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell)))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, ...headings)), h("tbody", {}, ...lines)));
}

export function checkbox(label: string, checked: boolean, change: (checked: boolean) => void): HTMLElement {
  const box = h("input", { type: "checkbox", change: () => change(box.checked) });
  box.checked = checked;
  return h("label", { class: "control" }, box, label);
}

export function select(label: string, options: [value: string, shown: string][], value: string,
                       change: (value: string) => void): HTMLElement {
  const list = h("select", { "aria-label": label, change: () => change(list.value) },
    ...options.map(([key, shown]) => h("option", { value: key }, shown)));
  list.value = value;
  return h("label", { class: "control" }, label, list);
}

let sections = 0;

// A section with a heading that names it.
export function section(title: string, ...children: Child[]): HTMLElement {
  const id = `section-${++sections}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}
