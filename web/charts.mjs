#!/usr/bin/env node
// Draws the charts that CHARTS.toml describes, with the code of the page, as SVG files beside it:
//   node web/charts.mjs CHARTS.toml… [--out FOLDER] [--check]
// [NAME] becomes NAME.svg. --check draws nothing: exit code 1 where a file is not what would be drawn. docs/how-to/report.md has the keys.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { parseHTML } from "linkedom";
import { parse } from "smol-toml";

const here = dirname(fileURLToPath(import.meta.url));

async function drawing() {
  const out = mkdtempSync(join(tmpdir(), "bridle-charts-"));
  try {
    await build({ entryPoints: [join(here, "src", "chart_file.ts")], bundle: true, platform: "node", format: "esm", outdir: out,
      outExtension: { ".js": ".mjs" }, logLevel: "error" });
    return await import(pathToFileURL(join(out, "chart_file.mjs")).href);
  } finally {
    rmSync(out, { recursive: true });
  }
}

const readTable = ({ attackTable, csvTable }, folder) => (name) => {
  const text = readFileSync(join(folder, name), "utf8");
  return name.endsWith(".json") ? attackTable(text) : csvTable(text);
};

const { values: flags, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string" }, check: { type: "boolean", default: false } },
});
if (!files.length) {
  console.error("usage: node web/charts.mjs CHARTS.toml… [--out FOLDER] [--check]");
  process.exit(2);
}
const { window } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document: window.document });
const page = await drawing();
let stale = 0;
for (const file of files) {
  try {
    for (const [name, chart] of Object.entries(parse(readFileSync(file, "utf8")))) {
      const picture = `${page.chartOf(name, chart, readTable(page, dirname(file))).outerHTML.replaceAll("<g", "\n<g").replaceAll("<path", "\n<path")}\n`;
      const path = join(flags.out ?? dirname(file), `${basename(name)}.svg`);
      if (!flags.check) {
        writeFileSync(path, picture);
        console.log(path);
      } else if (readFileSync(path, "utf8") !== picture) {
        console.error(`${path} is not what ${file} and its tables say: node web/charts.mjs ${file}`);
        stale = 1;
      }
    }
  } catch (error) {
    console.error(`charts: ${file}: ${error.message}`);
    process.exit(1);
  }
}
process.exit(stale);
