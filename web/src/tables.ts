// Tables that charts of results are drawn from: CSV files, and the attack.json that bridle attack writes.
import type { Cell } from "./data";

export interface Table {
  columns: string[];
  rows: Cell[][];
}

// A cell in quotes may hold commas and line breaks; "" is a quote.
function cellsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain = "", end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ",") continue;
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  }
  return rows;
}

function typed(cell: string | undefined): Cell {
  if (cell === undefined || cell.trim() === "") return null;
  return Number.isFinite(Number(cell)) ? Number(cell) : cell;
}

export function csvTable(text: string): Table {
  const [columns = [], ...rows] = cellsOf(text);
  return { columns, rows: rows.map((row) => columns.map((_, i) => typed(row[i]))) };
}

// A row for every ε, and first what there is without an attack.
export function attackTable(text: string): Table {
  const { points, ...clean } = JSON.parse(text) as { points: Record<string, Cell>[] } & Record<string, Cell>;
  const columns = Object.keys(points[0] ?? {});
  const rows = [{ ...(clean as Record<string, Cell>), epsilon: 0 } as Record<string, Cell>, ...points];
  return { columns, rows: rows.map((row) => columns.map((name) => row[name] ?? null)) };
}
