// The filter of a sweep's table: words that must all hold. "loss<1.6", "optimizer.lr>=0.1", "group=adamw" compare a column; any other
// word must stand somewhere in the row.
import type { Cell, Column } from "./data";

type Test = (row: Cell[]) => boolean;

const compare: Record<string, (a: number, b: number) => boolean> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

function testOf(word: string, columns: Column[]): Test {
  const [, name = "", sign = "", value = ""] = /^([^<>=]+)(<=|>=|<|>|=)(.*)$/.exec(word) ?? [];
  const place = columns.findIndex((column) => column.name.toLowerCase() === name || column.name.toLowerCase().endsWith(`.${name}`));
  if (place < 0) return (row) => row.some((cell) => String(cell ?? "").toLowerCase().includes(word));
  if (value === "") return () => true; // still being typed
  if (sign === "=") {
    return (row) => String(row[place] ?? "").toLowerCase() === value || (typeof row[place] === "number" && row[place] === Number(value));
  }
  return (row) => typeof row[place] === "number" && compare[sign]!(row[place] as number, Number(value));
}

export function filterOf(text: string, columns: Column[]): Test {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => testOf(word, columns));
  return (row) => tests.every((test) => test(row));
}

// By one column; what is missing comes last either way.
export function sorted(rows: Cell[][], place: number, descending: boolean): Cell[][] {
  const order = (a: Cell, b: Cell): number =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return [...rows].sort((left, right) => {
    const [a, b] = [left[place] ?? null, right[place] ?? null];
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    return descending ? order(b, a) : order(a, b);
  });
}

// Tukey's outer fences: beyond them lies what would press all else into a corner of a picture. Where more than a tenth lies there,
// it is no stray, and the fences hold all.
export function fences(values: number[]): [number, number] {
  const order = [...values].sort((a, b) => a - b);
  const at = (share: number) => order[Math.round(share * (order.length - 1))] ?? NaN;
  const far = 3 * (at(0.75) - at(0.25));
  const [low, high] = [Math.max(at(0), at(0.25) - far), Math.min(at(1), at(0.75) + far)];
  const beyond = order.filter((value) => value < low || value > high).length;
  return beyond > 0.1 * order.length ? [at(0), at(1)] : [low, high];
}

// Of points (x, y) those that no other beats in both: less of each is better.
export function frontier<T>(all: T[], x: (point: T) => number, y: (point: T) => number): T[] {
  let best = Infinity;
  return [...all].sort((a, b) => x(a) - x(b) || y(a) - y(b)).filter((point) => {
    if (y(point) >= best) return false;
    best = y(point);
    return true;
  });
}
