// The data of a page as `bridle report` writes it (docs/how-to/report.md), read without trust: what is not of its type is left out.

export interface Series {
  step: number[];
  value: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  lines_per_point?: number; // more than 1: a point is the mean of so many lines, low and high their range
}

export interface Layer {
  name: string;
  activation: number | null; // null beyond a double
  log10Activation: number; // NaN where it has none
  lipschitz: number | null;
  log10Lipschitz: number;
  share: number | null;
}

export interface Matrix {
  name: string;
  shape: string;
  method: string;
  norm: number | null;
}

export interface Certificate {
  lipschitz: number | null; // null beyond a double
  log10Lipschitz: number;
  observed: number | null;
  tokenRadius: number | null;
  domainRadius: number | null;
  version: string;
  sha256: string;
  dtype: string;
  layers: Layer[];
  matrices: Matrix[];
}

export interface Share {
  function: string;
  epsilon: number;
  certified: number;
  certifiedAccuracy: number;
}

export interface AttackPoint {
  epsilon: number;
  accuracy: number;
  certifiedAccuracy: number;
}

export interface Run {
  name: string;
  folder: string;
  info: Record<string, string>;
  settings: Record<string, string>;
  lines: number;
  last: Record<string, number>;
  series: Record<string, Series>;
  norms: Record<string, Series>;
  caps: Record<string, Series>;
  certificate: Certificate | null;
  predictions: { norm: string; targets: number; shares: Share[] } | null;
  attack: { images: number; points: AttackPoint[] } | null;
  attackPicture: string;
  samples: { prompt: string; text: string; about: string }[];
  problems: string[];
}

export interface Column {
  name: string;
  number: boolean;
  setting: boolean;
}

export type Cell = number | string | null;

export interface Sweep {
  name: string;
  file: string;
  columns: Column[];
  rows: Cell[][];
}

export interface Report {
  version: string;
  title: string;
  live: boolean;
  runs: Run[];
  sweeps: Sweep[];
}

type Raw = Record<string, unknown>;

const object = (value: unknown): Raw =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Raw) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const number = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;
const text = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
const entries = <T>(value: unknown, read: (raw: unknown) => T): Record<string, T> =>
  Object.fromEntries(Object.entries(object(value)).map(([key, raw]) => [key, read(raw)]));

function series(raw: unknown): Series {
  const { step, value, low, high, lines_per_point } = object(raw);
  const result: Series = { step: list(step).map(Number), value: list(value).map(number) };
  if (low) result.low = list(low).map(number);
  if (high) result.high = list(high).map(number);
  const lines = number(lines_per_point);
  if (lines) result.lines_per_point = lines;
  return result;
}

// The logarithm of 0 is null in a certificate.
const logarithm = (value: unknown): number => number(value) ?? (value === null ? -Infinity : NaN);

function layer(raw: unknown): Layer {
  const entry = object(raw);
  return {
    name: text(entry.name),
    activation: number(entry.activation),
    log10Activation: logarithm(entry.log10_activation),
    lipschitz: number(entry.lipschitz),
    log10Lipschitz: logarithm(entry.log10_lipschitz),
    share: number(entry.share),
  };
}

function matrix(raw: unknown): Matrix {
  const entry = object(raw);
  return {
    name: text(entry.name),
    shape: list(entry.shape).join(" × "),
    method: text(entry.method),
    norm: number(entry.norm) ?? number(entry.largest_row_rms) ?? number(entry.largest_entry) ?? number(entry.euclidean),
  };
}

function certificate(raw: unknown): Certificate | null {
  const entry = object(raw);
  const weights = object(entry.weights);
  if (number(entry.log10_lipschitz) === null) return null;
  return {
    lipschitz: number(entry.lipschitz),
    log10Lipschitz: logarithm(entry.log10_lipschitz),
    observed: number(entry.observed_lipschitz),
    tokenRadius: number(entry.token_radius),
    domainRadius: number(entry.domain_radius),
    version: text(entry.version),
    sha256: text(weights.sha256),
    dtype: text(weights.dtype),
    layers: list(entry.layers).map(layer),
    matrices: list(entry.matrices).map(matrix),
  };
}

function predictions(raw: unknown): Run["predictions"] {
  const entry = object(raw);
  const shares = list(entry.shares).map((share) => {
    const of = object(share);
    return {
      function: text(of.function),
      epsilon: number(of.epsilon) ?? NaN,
      certified: number(of.certified) ?? NaN,
      certifiedAccuracy: number(of.certified_accuracy) ?? NaN,
    };
  });
  return shares.length ? { norm: text(entry.norm), targets: number(entry.targets) ?? 0, shares } : null;
}

function attack(raw: unknown): Run["attack"] {
  const entry = object(raw);
  const clean = number(entry.accuracy);
  const points = list(entry.points).map((point) => {
    const of = object(point);
    return {
      epsilon: number(of.epsilon) ?? NaN,
      accuracy: number(of.accuracy) ?? NaN,
      certifiedAccuracy: number(of.certified_accuracy) ?? NaN,
    };
  });
  if (!points.length) return null;
  if (clean !== null && points[0]!.epsilon > 0) points.unshift({ epsilon: 0, accuracy: clean, certifiedAccuracy: clean });
  return { images: number(entry.images) ?? 0, points };
}

function sample(raw: unknown): Run["samples"][number] {
  const { prompt, text: generated, ...others } = object(raw);
  const about = Object.entries(others).filter(([key]) => key !== "schema").map(([key, value]) => `${key} ${text(value)}`);
  return { prompt: text(prompt), text: text(generated), about: about.join(", ") };
}

function run(raw: unknown): Run {
  const entry = object(raw);
  const metrics = object(entry.metrics);
  const weights = object(metrics.of_weights);
  const last = Object.entries(object(metrics.last)).flatMap(([key, value]) =>
    number(value) === null ? [] : [[key, value as number] as const]);
  return {
    name: text(entry.name),
    folder: text(entry.folder),
    info: entries(entry.info, text),
    settings: entries(entry.settings, text),
    lines: number(metrics.lines) ?? 0,
    last: Object.fromEntries(last),
    series: entries(metrics.series, series),
    norms: entries(weights.norms, series),
    caps: entries(weights.caps, series),
    certificate: certificate(entry.certificate),
    predictions: predictions(entry.predictions),
    attack: attack(entry.attack),
    attackPicture: /^[A-Za-z0-9+/=]+$/.test(text(entry.attack_picture)) ? text(entry.attack_picture) : "",
    samples: list(entry.samples).map(sample),
    problems: list(entry.problems).map(text),
  };
}

function sweep(raw: unknown): Sweep {
  const entry = object(raw);
  const columns = list(entry.columns).map((column) => {
    const of = object(column);
    return { name: text(of.name), number: of.number === true, setting: of.setting === true };
  });
  const cell = (value: unknown): Cell => (value === null || typeof value === "number" ? value : text(value));
  return {
    name: text(entry.name),
    file: text(entry.file),
    columns,
    rows: list(entry.rows).map((row) => columns.map((_, i) => cell(list(row)[i] ?? null))),
  };
}

export function readReport(raw: unknown): Report {
  const entry = object(raw);
  return {
    version: text(entry.version),
    title: text(entry.title),
    live: entry.live === true,
    runs: list(entry.runs).map(run),
    sweeps: list(entry.sweeps).map(sweep),
  };
}
