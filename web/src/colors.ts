// Colours of Okabe and Ito, which readers with any kind of colour vision can tell apart, without yellow, which is lost on white. From
// the eighth on they come again with another dash and shape, so that colour is never the only difference.

export const palette = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "currentColor"];
const dashes = ["", "6 3", "2 3", "8 3 2 3"];

const symbols = ["circle", "square", "triangle", "diamond"] as const;

export interface Ink {
  color: string;
  dash: string;
  symbol: (typeof symbols)[number];
}

export function ink(index: number): Ink {
  const round = Math.floor(index / palette.length) % dashes.length;
  return { color: palette[index % palette.length]!, dash: dashes[round]!, symbol: symbols[round]! };
}

export const tellApart = palette.length * dashes.length; // so many inks differ
