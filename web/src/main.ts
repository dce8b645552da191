// The page: reads its data, puts the sections together, follows a live server.
import { bound } from "./bound";
import { forgetCharts } from "./chart";
import { certified } from "./certified";
import { curves } from "./curves";
import { readReport, type Report } from "./data";
import { h, select } from "./dom";
import { follow } from "./live";
import { norms } from "./norms";
import { overview, runChooser } from "./overview";
import { Store } from "./store";
import { sweepSection } from "./sweep";
import { certificates, recipe, samples } from "./texts";
import { walk } from "./walk";

const themes: [string, string][] = [["auto", "as the system"], ["light", "light"], ["dark", "dark"]];

// A page opened from a file may have no place to remember a choice.
function remembered(): string {
  try {
    return localStorage.getItem("bridle-theme") ?? "auto";
  } catch {
    return "auto";
  }
}

function useTheme(theme: string): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("bridle-theme", theme);
  } catch {
    // the choice holds for this visit
  }
}

function header(report: Report): HTMLElement {
  const theme = themes.some(([known]) => known === remembered()) ? remembered() : "auto";
  useTheme(theme);
  return h("header", {},
    h("div", {}, h("h1", {}, report.title || "Bridle"), h("p", { id: "live", role: "status" }, "")),
    select("theme", themes, theme, useTheme));
}

function sectionsOf(store: Store): HTMLElement[] {
  const ofRuns = store.data.runs.length
    ? [overview(store), curves(store), bound(store), walk(store), norms(store), certified(store), samples(store), recipe(store), certificates(store)]
    : [];
  const ofSweeps = store.data.sweeps.map((sweep) => sweepSection(store, sweep));
  return [...ofRuns, ...ofSweeps].filter((part): part is HTMLElement => part !== null);
}

function contents(sections: HTMLElement[]): HTMLElement {
  const links = sections.map((part) => {
    const heading = part.querySelector("h2")!;
    return h("a", { href: `#${heading.id}` }, heading.textContent ?? "");
  });
  return h("nav", { "aria-label": "Sections" }, ...links);
}

function show(store: Store): void {
  const report = store.data;
  forgetCharts();
  document.title = report.title ? `${report.title} · Bridle` : "Bridle";
  const sections = sectionsOf(store);
  document.getElementById("page")!.replaceChildren(
    h("a", { href: "#main", class: "skip" }, "Skip to the charts"),
    header(report),
    h("div", { class: "bar" }, contents(sections), runChooser(store)),
    h("main", { id: "main", tabindex: -1 }, ...(sections.length ? sections : [h("p", {}, "There is nothing to show yet.")])),
    h("footer", {}, `Bridle ${report.version}. Charts: Observable Plot. Colours: Okabe and Ito.`));
}

function start(): void {
  const store = new Store(readReport(JSON.parse(document.getElementById("bridle-data")?.textContent ?? "null")));
  show(store);
  if (store.data.live) follow(store, () => show(store));
}

start();
