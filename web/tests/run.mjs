// Runs the unit tests: bundles tests/*.test.ts for Node and hands them to its test runner; after them, the types of the page, and
// whether the pictures in experiments/ are what their tables and the page's code draw.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "bridle-page-"));
const tests = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: tests.map((name) => join(here, name)),
  bundle: true, platform: "node", format: "esm", outdir: out, outExtension: { ".js": ".mjs" },
});
const run = (...command) => spawnSync(process.execPath, command, { cwd: join(here, ".."), stdio: "inherit" }).status;
const experiments = join(here, "..", "..", "experiments");
const charts = readdirSync(experiments).map((name) => join(experiments, name, "charts.toml")).filter((path) => existsSync(path));
const failed = run("--test", ...tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")))) || run("node_modules/typescript/bin/tsc", "--noEmit") ||
  run("charts.mjs", "--check", ...charts);
rmSync(out, { recursive: true });
process.exit(failed);
