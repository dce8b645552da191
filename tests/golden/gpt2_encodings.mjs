// Writes gpt2_encodings.jsonl, one line ["text", [ids]] a string, by the npm package gpt-3-encoder 1.1.4:
//   npm pack gpt-3-encoder@1.1.4 && tar xf gpt-3-encoder-1.1.4.tgz
//   node gpt2_encodings.mjs package > gpt2_encodings.jsonl
// The same bytes on every run. Characters are of Unicode 15.0, which every Node since version 20 knows.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const folder = resolve(process.argv[2] ?? 'package');
const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`));
if (name !== 'gpt-3-encoder' || version !== '1.1.4') {
  throw new Error(`${folder} holds ${name} ${version}, not gpt-3-encoder 1.1.4`);
}
const { encode } = createRequire(import.meta.url)(folder);

// ---- random choices: mulberry32
let state = 20240917;
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const times = (n, make) => Array.from({ length: n }, make).join('');
const some = (low, high, make) => times(low + below(high - low + 1), make);

// ---- characters
const range = ([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => String.fromCodePoint(from + i));
const between = (ranges) => ranges.map(range);
const scripts = between([
  [0x41, 0x5a], [0x61, 0x7a], [0xc0, 0xff], [0x100, 0x24f], [0x250, 0x2af], [0x2b0, 0x2ff], [0x391, 0x3a1], [0x3b1, 0x3c9],
  [0x400, 0x4ff], [0x531, 0x556], [0x5d0, 0x5ea], [0x620, 0x65f], [0x710, 0x74a], [0x905, 0x94d], [0x985, 0x98c],
  [0xa85, 0xa8d], [0xb85, 0xb8a], [0xc05, 0xc0c], [0xd05, 0xd0c], [0xe01, 0xe3a], [0xe40, 0xe5b], [0xf40, 0xf47],
  [0x1000, 0x104f], [0x10d0, 0x10ff], [0x1100, 0x11ff], [0x1200, 0x1248], [0x13a0, 0x13f5], [0x1401, 0x14ff],
  [0x16a0, 0x16ea], [0x1780, 0x17dd], [0x1820, 0x1878], [0x1e00, 0x1eff], [0x1f00, 0x1f15], [0x2c00, 0x2c5f],
  [0x3041, 0x3096], [0x30a1, 0x30fa], [0x3105, 0x312f], [0x4e00, 0x9fa5], [0xa000, 0xa48c], [0xac00, 0xd7a3],
  [0xff21, 0xff5a], [0xff66, 0xff9d], [0x10330, 0x1034a], [0x10400, 0x1044f], [0x12000, 0x12399], [0x13000, 0x1342f],
  [0x1d400, 0x1d454], [0x1e900, 0x1e943], [0x20000, 0x2a6d6],
]);
const numbers = between([
  [0x30, 0x39], [0xb2, 0xb3], [0xbc, 0xbe], [0x660, 0x669], [0x6f0, 0x6f9], [0x966, 0x96f], [0xe50, 0xe59],
  [0x1369, 0x137c], [0x2070, 0x2070], [0x2074, 0x2079], [0x2080, 0x2089], [0x2150, 0x2188], [0x2460, 0x249b],
  [0x24ea, 0x24ff], [0x2776, 0x2793], [0x3007, 0x3007], [0x3021, 0x3029], [0x3220, 0x3229], [0xff10, 0xff19],
  [0x10107, 0x10133], [0x1d7ce, 0x1d7ff], [0x1f100, 0x1f10c],
]);
const marks = between([
  [0x300, 0x36f], [0x483, 0x489], [0x591, 0x5bd], [0x64b, 0x65f], [0x93c, 0x94d], [0x20d0, 0x20f0], [0xfe00, 0xfe0f],
  [0xfe20, 0xfe2f],
]);
const symbols = between([
  [0x21, 0x2f], [0x3a, 0x40], [0x5b, 0x60], [0x7b, 0x7e], [0xa1, 0xa9], [0x2010, 0x2027], [0x2030, 0x205e],
  [0x20a0, 0x20bf], [0x2190, 0x21ff], [0x2200, 0x22ff], [0x2500, 0x257f], [0x25a0, 0x25ff], [0x2600, 0x26ff],
  [0x3001, 0x3003], [0x3008, 0x3011], [0xff01, 0xff0f], [0xe000, 0xe010], [0xfffc, 0xfffd], [0x1d100, 0x1d126],
]);
const controls = between([
  [0x00, 0x08], [0x0e, 0x1f], [0x7f, 0x84], [0x85, 0x85], [0x86, 0x9f], [0xad, 0xad], [0x180e, 0x180e], [0x200b, 0x200f],
  [0x202a, 0x202e], [0x2060, 0x2064],
]);
const spaces = between([
  [0x09, 0x0d], [0x20, 0x20], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a], [0x2028, 0x2029], [0x202f, 0x202f],
  [0x205f, 0x205f], [0x3000, 0x3000], [0xfeff, 0xfeff],
]).flat();
const nearly_spaces = ['\u0085', '\u180e', '\u200b', '\u2060', '\u001c', '\u001f'];
const emoji = [
  '😀', '🙂', '🔥', '❤️', '👍🏽', '🤷🏿‍♀️', '👩‍👩‍👧‍👦', '👨🏻‍🚀', '🏳️‍🌈', '🏴‍☠️', '🇩🇪', '🇯🇵', '1️⃣', '#️⃣', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', '🧑🏾‍🤝‍🧑🏼', '👁️‍🗨️', '☃', '✈️', '🪿', '🫨', '🀄', '🂡',
];

// ---- fragments
const words = `the of and to a in is it you that he was for on are with as I his they be at one have this from or had by
  hot but some what there we can out other were all your when up use word how said an each she which do their time if
  will way about many then them would write like so these her long make thing see him two has look more day could go
  come did my sound no most number who over know water than call first people may down side been now find any new work
  part take get place made live where after back little only round man year came show every good me give our under name
  very through Bridle Lipschitz transformer antidisestablishmentarianism SolidGoldMagikarp GPT-2 naïve café Zürich
  Straße Dvořák ÅNGSTRÖM xkcd qwzxv`.split(/\s+/);
const apostrophes = [
  "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'LL", "'D", "'l", "'r", "'v", "'", "''",
  '’s', '’re', "'sx", "'tis", "'em", "'llama", "'dé", "'é", "'5",
];
const code = [
  'int main() { return 0; }', 'for (int i = 0; i < n; ++i) {', '    x[i] += y[j]*2.5e-3;\n', '#include <vector>\n',
  'def f(x):\n    return x**2\n', '\tif err != nil {\n\t\treturn err\n\t}\n', 'SELECT * FROM t WHERE a >= 10;',
  '<div class="a b">&nbsp;</div>', 'https://example.org/a?b=c&d=%20#e', 'user.name+tag@example.com', '$x_{i}^{2}$',
  '{"key": [1, 2, {"n": null}], "s": "\\u00e9"}', '/* comment */', '->::<<>>!==&&||', 'a_b__c', 'camelCaseIdentifier',
  'SCREAMING_SNAKE', '0x7fff_ffff', '3.14159', '1,234,567.89', '2024-09-17T12:34:56Z', '","', '"],"', "'],", '.",', '...',
  '----', '====', '\r\n', '<|endoftext|>', '<|endoftext', '(((())))',
];
const run_of_spaces = () => {
  if (random() < 0.5) return pick(spaces).repeat(1 + below(9));
  return some(1, 6, () => pick(random() < 0.1 ? nearly_spaces : spaces));
};
const foreign_word = () => {
  const script = pick(scripts);
  return some(1, 8, () => pick(script) + (random() < 0.05 ? pick(pick(marks)) : ''));
};
const number = () => {
  const digits = random() < 0.5 ? numbers[0] : pick(numbers);
  return some(1, 6, () => pick(digits));
};
const anything = () => pick(pick(random() < 0.5 ? scripts : pick([numbers, marks, symbols, controls])));
const fragments = [
  () => pick(words), () => pick(words), () => pick(words).toUpperCase(), () => pick(words) + pick(apostrophes),
  () => pick(apostrophes), foreign_word, foreign_word, number, number, run_of_spaces, run_of_spaces, () => pick(emoji),
  () => pick(code), () => some(1, 4, () => pick(pick(symbols))), () => some(1, 3, () => pick(pick(controls))),
  () => some(1, 3, () => pick(pick(marks))), anything,
];

// ---- strings
const sentence = () => {
  let text = pick(words);
  for (let i = below(9); i > 0; --i) {
    text += ' ' + pick(words);
    if (random() < 0.15) text += pick(apostrophes);
    else if (random() < 0.1) text += pick([',', '.', ';', '?', '!"', ' -']);
  }
  return text + pick(['.', '?', '', '\n']);
};
const space = () => (random() < 0.6 ? ' ' : random() < 0.6 ? pick(['\n', '\t', '\r\n', '  ', '\n\n']) : pick(spaces));
const mixture = () => some(1, 6, () => pick(fragments)());
const spaced = () => some(1, 4, () => pick(fragments)() + space());
const soup = () => some(1, 8, anything);
const ascii_soup = () => some(1, 14, () => String.fromCharCode(below(128)));
const quotes_and_letters = () => some(2, 9, () => pick([..."''strevmldSL 1\n"]));
const repeated = () => {
  const one = random() < 0.5 ? anything() : pick([...'abxAZ0.=-_*#~\'" \n\t', ...spaces]);
  return one.repeat(1 + below(90));
};

const strings = ['', ...range([0, 127]), ...apostrophes, ...emoji, ...code];
for (const s of [...spaces, ...nearly_spaces]) {
  strings.push(s, `a${s}b`, `a${s}${s}b`, `a${s}`, `${s}a`, `${s} a`, ` ${s}a`, `1${s}${s}${s}!`, `${s}'s`, `\n${s}`);
}
for (const s of ['a', 'ab', ' ', '\n', '=', '-', '0', '.', ' a', 'é', '的', '😀', "'", '\u3000', 'ha']) {
  strings.push(s.repeat(300));
}
const kinds = [
  [1800, sentence], [3600, mixture], [1800, spaced], [1200, soup], [900, ascii_soup], [1200, quotes_and_letters],
  [300, repeated],
];
for (const [count, make] of kinds) {
  for (let i = 0; i < count; ++i) strings.push(make());
}
process.stdout.write(strings.map((text) => JSON.stringify([text, encode(text)]) + '\n').join(''));
