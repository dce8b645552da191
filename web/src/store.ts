// What the reader has chosen, and the data; whoever shows something of it is told when it changes.
import { ink, type Ink } from "./colors";
import type { Report, Run } from "./data";
import { h } from "./dom";
import type { Axis } from "./series";

export interface View {
  logLoss: boolean;
  logX: boolean;
  axis: Axis;
  smoothing: number;
  asShare: boolean; // norms as a share of their caps
  onlyDifferent: boolean;
}

export class Store {
  hidden = new Set<string>();
  view: View = { logLoss: false, logX: false, axis: "step", smoothing: 0, asShare: true, onlyDifferent: true };
  private listeners = new Set<() => void>();

  constructor(public data: Report) {}

  shown(): Run[] {
    return this.data.runs.filter((run) => !this.hidden.has(run.name));
  }

  inkOf(run: Run): Ink {
    return ink(this.data.runs.indexOf(run));
  }

  named(run: Run): { name: string; ink: Ink } {
    return { name: run.name, ink: this.inkOf(run) };
  }

  choose(view: Partial<View>): void {
    this.view = { ...this.view, ...view };
    this.changed();
  }

  show(run: string, visible: boolean): void {
    if (visible) this.hidden.delete(run);
    else this.hidden.add(run);
    this.changed();
  }

  replace(data: Report): void {
    this.data = data;
    this.changed();
  }

  // For a page that is made anew; the reader's choices stay.
  restart(data: Report): void {
    this.data = data;
    this.listeners.clear();
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  listen(listener: () => void): void {
    this.listeners.add(listener);
  }

  // A part of the page that is made anew whenever something changes.
  part(make: () => Node | null): HTMLElement {
    const place = h("div");
    const fill = () => {
      const node = make();
      place.replaceChildren(...(node ? [node] : []));
    };
    this.listen(fill);
    fill();
    return place;
  }
}
