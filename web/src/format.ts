// Numbers as text. A bound is rounded up: what the page shows is never too small.

export function numberText(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e7 ? String(Number(value.toPrecision(digits))) : value.toExponential(digits - 1).replace(/\.?0+e/, "e");
}

// Of a tick: powers of ten that are long to write as such, all else as a number.
export function powerText(value: number): string {
  const exponent = Math.round(Math.log10(value));
  const isPower = Math.abs(value / 10 ** exponent - 1) < 1e-9;
  if (!isPower || Math.abs(exponent) < 4) return numberText(Number(value.toPrecision(6)));
  return `10${String(exponent).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]!)}`;
}

export const percentText = (share: number | null | undefined): string =>
  share === null || share === undefined || Number.isNaN(share) ? "—" : `${(100 * share).toFixed(2)} %`;

// Of something certified: rounded down.
export const certifiedText = (share: number): string => `${(Math.floor(1e4 * share) / 100).toFixed(2)} %`;

// Four digits, rounded up; 10^x where x is large. Without the number itself there is room for the rounding of its logarithm.
export function boundText(log10: number | null | undefined, exact?: number | null): string {
  if (log10 === null || log10 === undefined || Number.isNaN(log10)) return "—";
  if (log10 === -Infinity) return "0";
  if (log10 >= 7 || log10 < -4) return `10^${(Math.ceil(1e3 * log10) / 1e3).toFixed(3)}`;
  const value = exact ?? 10 ** log10 * (1 + 1e-14);
  const unit = 10 ** (Math.floor(log10) - 3);
  const up = Math.ceil(value / unit) * unit;
  return String(Number(up.toPrecision(6)));
}

export function durationText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "—";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const clock = `${String(minutes % 60).padStart(2, "0")}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  return minutes < 60 ? clock : `${Math.floor(minutes / 60)}:${clock}`;
}

// A word for a POSIX shell, whatever it holds.
export const shellWord = (word: string): string =>
  /^[\w./@%+=:,-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;

// model.layers.2 before model.layers.10.
export const naturally = (a: string, b: string): number => a.localeCompare(b, "en", { numeric: true });
