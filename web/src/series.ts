// Series as points to draw: smoothing, gaps, and the time at a step.
import type { Run, Series } from "./data";

export interface Point {
  x: number;
  y: number; // NaN: a gap
  low: number;
  high: number;
  step: number;
}

// Exponential average that begins without bias; what is missing stays missing.
export function smoothed(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

// Seconds at a step, linear between the lines of the log.
export function secondsAt(run: Run, step: number): number {
  const clock = run.series.seconds;
  if (!clock || !clock.step.length) return NaN;
  let after = clock.step.findIndex((logged) => logged >= step);
  if (after < 0) after = clock.step.length - 1;
  const before = Math.max(0, after - 1);
  const [s0, s1] = [clock.step[before]!, clock.step[after]!];
  const [t0, t1] = [clock.value[before] ?? NaN, clock.value[after] ?? NaN];
  return s1 === s0 ? t1 : t0 + ((t1 - t0) * (step - s0)) / (s1 - s0);
}

export type Axis = "step" | "seconds";

export function points(run: Run, series: Series | undefined, axis: Axis, weight = 0): Point[] {
  if (!series) return [];
  const values = smoothed(series.value, weight);
  const place = axis === "step" ? (step: number) => step : (step: number) => secondsAt(run, step);
  return series.step.map((step, i) => ({
    x: place(step),
    y: values[i] ?? NaN,
    low: series.low?.[i] ?? series.value[i] ?? NaN,
    high: series.high?.[i] ?? series.value[i] ?? NaN,
    step,
  }));
}

// What logarithmic axes can show.
export const positive = (all: Point[], logX = true, logY = true): Point[] =>
  all.map((point) => ((!logY || point.y > 0) && (!logX || point.x > 0) ? point : { ...point, y: NaN, low: NaN, high: NaN }));

export const lastValue = (series: Series | undefined): number | null => {
  for (let i = (series?.value.length ?? 0) - 1; i >= 0; --i) {
    const value = series!.value[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
};
