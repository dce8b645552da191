// Charts that a file describes, drawn as the page draws its own (docs/how-to/report.md, "Charts of results"). The description comes from a
// TOML file, the points from tables: CSV files of sweeps, or attack.json.
import { ink, type Ink } from "./colors";
import type { Cell } from "./data";
import { filterOf, frontier } from "./filter";
import type { LegendEntry } from "./legend";
import { linesChart, type Line, type Rule } from "./lines";
import type { Point } from "./series";
import { standalone } from "./standalone";
import type { Table } from "./tables";

export { attackTable, csvTable } from "./tables";

export type ReadTable = (name: string) => Table;

type Raw = Record<string, unknown>;

const width = 760;

// What a description says under `name`, with every key known: a key that is not is a mistake, not a wish that is passed over.
class Part {
  constructor(readonly name: string, private readonly raw: Raw, known: string[]) {
    const unknown = Object.keys(raw).find((key) => !known.includes(key));
    if (unknown !== undefined) throw new Error(`${name}: unknown key ${unknown}; known are ${known.join(", ")}`);
  }

  private as<T>(key: string, isType: (value: unknown) => boolean, type: string): T | undefined {
    const value = this.raw[key];
    if (value !== undefined && !isType(value)) throw new Error(`${this.name}: ${key} must be ${type}`);
    return value as T | undefined;
  }

  text = (key: string) => this.as<string>(key, (value) => typeof value === "string", "a text");
  flag = (key: string, otherwise = false) => this.as<boolean>(key, (value) => typeof value === "boolean", "true or false") ?? otherwise;
  number = (key: string) => this.as<number>(key, (value) => typeof value === "number", "a number");
  list = (key: string) => this.as<Raw[]>(key, Array.isArray, "a list") ?? [];
  texts = (key: string) => this.as<Record<string, string>>(key, (value) => isObject(value) && Object.values(value as Raw)
    .every((entry) => typeof entry === "string"), "a table of texts");
  part = (key: string, known: string[]) =>
    new Part(`${this.name}.${key}`, this.as<Raw>(key, isObject, "a table") ?? {}, known);

  range(key: string): [number, number] | undefined {
    const isRange = (value: unknown) => Array.isArray(value) && value.length === 2 && value.every((end) => typeof end === "number");
    return this.as<[number, number]>(key, isRange, "[least, most]");
  }

  needed(key: string): string {
    const value = this.text(key);
    if (value === undefined) throw new Error(`${this.name}: ${key} is missing`);
    return value;
  }

  oneOf<T extends string>(key: string, words: readonly T[]): T {
    const word = this.text(key) ?? words[0]!;
    if (!words.includes(word as T)) throw new Error(`${this.name}: ${key} must be one of ${words.join(", ")}; it is ${word}`);
    return word as T;
  }
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

const seriesKeys = ["name", "table", "where", "x", "y", "each", "names", "columns", "per", "line", "dots", "dashed", "color"];

// A column, or several with "*" between them, which are multiplied. On a logarithmic axis a column log10_… is an exponent.
function readerOf(part: Part, table: Table, expression: string, log: boolean): (row: Cell[]) => number {
  const places = expression.split("*").map((name) => placeOf(part, table, name.trim()));
  const value = (cell: Cell | undefined, name: string): number => {
    if (typeof cell !== "number") return NaN;
    return log && name.startsWith("log10_") ? 10 ** cell : cell;
  };
  return (row) => places.reduce((product, place) => product * value(row[place], table.columns[place]!), 1);
}

function placeOf(part: Part, table: Table, name: string): number {
  const place = table.columns.indexOf(name);
  if (place < 0) throw new Error(`${part.name}: the table has no column ${name}; it has ${table.columns.join(", ")}`);
  return place;
}

const pointOf = (x: number, values: number[]): Point => ({
  x, y: values.reduce((a, b) => a + b, 0) / values.length, low: Math.min(...values), high: Math.max(...values), step: NaN,
});

// A point for every row; or, with `per`, for every value of a column: the mean with the range, at the largest x.
function pointsOf(rows: Cell[][], x: (row: Cell[]) => number, y: (row: Cell[]) => number, per: number | null): Point[] {
  const groups = new Map<Cell | number, Cell[][]>();
  const drawn = rows.filter((row) => Number.isFinite(x(row)) && Number.isFinite(y(row)));
  drawn.forEach((row, i) => {
    const key = per === null ? i : (row[per] ?? null);
    groups.set(key, [...(groups.get(key) ?? []), row]);
  });
  return [...groups.values()].map((own) => pointOf(Math.max(...own.map(x)), own.map(y))).sort((a, b) => a.x - b.x);
}

interface Series {
  name: string;
  rows: Cell[][];
  y: string;
}

// With `each`, a series for every value of a column, in the order of `names` where it is given, of which equal ones are one series;
// with `columns`, one for every column; else one.
function seriesOf(part: Part, table: Table, rows: Cell[][]): Series[] {
  const columns = part.texts("columns");
  if (columns) return Object.entries(columns).map(([y, name]) => ({ name, rows, y }));
  const y = part.needed("y");
  const each = part.text("each");
  if (each === undefined) return [{ name: part.text("name") ?? "", rows, y }];
  const place = placeOf(part, table, each);
  const values = [...new Set(rows.map((row) => String(row[place] ?? "")))];
  const names = part.texts("names") ?? Object.fromEntries(values.map((value) => [value, value]));
  return [...new Set(Object.values(names))].map((name) =>
    ({ name, y, rows: rows.filter((row) => names[String(row[place] ?? "")] === name) }));
}

interface Axes {
  logX: boolean;
  logY: boolean;
}

function linesOf(part: Part, read: ReadTable, { logX, logY }: Axes, first: number): Line[] {
  const table = read(part.needed("table"));
  const columns = table.columns.map((name) => ({ name, number: true, setting: false }));
  const per = part.text("per");
  const style = part.oneOf("line", ["join", "best", "none"] as const);
  const rows = table.rows.filter(filterOf(part.text("where") ?? "", columns));
  const all = seriesOf(part, table, rows).map(({ name, rows: own, y }) => {
    const points = pointsOf(own, readerOf(part, table, part.needed("x"), logX), readerOf(part, table, y, logY),
      per === undefined ? null : placeOf(part, table, per));
    return { name, points: style === "best" ? frontier(points, (p) => p.x, (p) => p.y) : points };
  });
  const whole = part.text("each") === undefined || part.texts("names"); // else values that have no points are no series
  const empty = all.find(({ points }) => !points.length && (whole || all.every((series) => !series.points.length)));
  if (empty || !all.length) throw new Error(`${part.name}: no row has points for "${empty?.name ?? part.text("each")}"`);
  return all.filter(({ points }) => points.length).map(({ name, points }, i): Line => ({
    name, points, ink: inkOf(part, first + i), noLine: style === "none", steps: style === "best", dots: part.flag("dots", true),
    radius: 3.5, bars: per !== undefined,
  }));
}

function inkOf(part: Part, index: number): Ink {
  const chosen = ink(part.number("color") ?? index);
  return part.flag("dashed") ? { ...chosen, dash: "6 3" } : chosen;
}

function rulesOf(chart: Part): Rule[] {
  return chart.list("rules").map((raw, i) => {
    const part = new Part(`${chart.name}.rules[${i}]`, raw, ["at", "label"]);
    const at = part.number("at");
    if (at === undefined) throw new Error(`${part.name}: at is missing`);
    return { at, label: part.text("label") ?? "" };
  });
}

export function chartOf(name: string, raw: unknown, read: ReadTable): SVGSVGElement {
  if (!isObject(raw)) throw new Error(`${name} must be a table`);
  const chart = new Part(name, raw as Raw, ["title", "x", "y", "rules", "series", "height"]);
  const axis = ["label", "log", "limits", "percent", "from0"];
  const [x, y] = [chart.part("x", axis), chart.part("y", axis)];
  const [logX, logY] = [x.flag("log"), y.flag("log")];
  const lines: Line[] = [];
  chart.list("series").forEach((series, i) =>
    lines.push(...linesOf(new Part(`${name}.series[${i}]`, series, seriesKeys), read, { logX, logY }, lines.length)));
  const picture = linesChart(lines, {
    width, height: chart.number("height") ?? 430, fontSize: 12, logX, logY, xLabel: x.text("label") ?? "", yLabel: y.text("label") ?? "",
    xLimits: x.range("limits"), yLimits: y.range("limits"), yPercent: y.flag("percent"), from0: y.flag("from0"), rules: rulesOf(chart),
  });
  if (!picture) throw new Error(`${name}: there is nothing to draw`);
  const entries = lines.filter((line) => line.name).map((line): LegendEntry => ({ ...line, line: !line.noLine, dot: line.dots }));
  return standalone(chart.text("title") ?? "", [{ picture, x: 0, y: 0 }], entries);
}
