// A page of a run with 100,000 logged steps: node long.e2e.mjs BRIDLE FOLDER. FOLDER gets the run and the page. What it takes to open
// it is printed; that all charts are drawn in less than 200 MB of memory of the page's own is tested.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, statSync, writeFileSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { withPage } from "./browser.mjs";

const [bridle, folder] = process.argv.slice(2);
const steps = 100000;
const run = join(folder, "long");
const page = join(folder, "page");

const weights = Array.from({ length: 6 }, (_, layer) => ["q", "k", "v", "o", "up", "down"].map((kind) => `model.layers.${layer}.${kind}_proj.weight`)).flat();

function line(step) {
  const loss = 4 / (1 + step / 5000) + 0.2 * Math.sin(step * 12.9898);
  const entry = { step, loss, accuracy: 1 / loss, learning_rate: 1 - step / steps, tokens_per_second: 30000 + step % 977, seconds: step / 3 };
  if (step % 20 === 0) entry.norms = Object.fromEntries(weights.map((weight, i) => [weight, 1 - Math.exp(-step / (1000 * (i + 1)))]));
  if (step % 500 === 0) Object.assign(entry, { validation_loss: loss + 0.1, log10_lipschitz: 1.3 });
  return `${JSON.stringify(entry)}\n`;
}

function writeRun() {
  mkdirSync(run, { recursive: true });
  writeFileSync(join(run, "config.toml"), "[training]\nsteps = 100000\n[constraint]\nmethod = \"hard_cap\"\nsigma_max = 1.0\n");
  const file = openSync(join(run, "metrics.jsonl"), "w");
  for (let step = 1; step <= steps; step += 1000) writeSync(file, Array.from({ length: 1000 }, (_, i) => line(step + i)).join(""));
  closeSync(file);
}

const status = (pid, key) => new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];

function descends(pid) {
  for (let at = Number(pid); at > 1; at = Number(status(at, "PPid"))) if (at === process.pid) return true;
  return false;
}

// Of this browser's renderer that has most, in MB: its own memory now, and the most with the browser's program, which all share.
function largestRenderer() {
  const sizes = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer") || !descends(pid)) return [0, 0];
      return [Number(status(pid, "RssAnon")) + Number(status(pid, "RssShmem")), Number(status(pid, "VmHWM"))].map((size) => size / 1024);
    } catch {
      return [0, 0]; // it has ended
    }
  });
  return sizes.reduce((most, size) => (size[0] > most[0] ? size : most));
}

async function drawAll(tab) {
  const height = await tab.evaluate(() => document.documentElement.scrollHeight);
  for (let y = 0; y < height; y += 500) {
    await tab.evaluate((top) => scrollTo(0, top), y);
    await tab.waitForTimeout(50);
  }
  await tab.waitForFunction(() => document.querySelectorAll("figure .picture svg").length >= 6);
}

writeRun();
execFileSync(bridle, ["report", run, "--out", page]);
await withPage({ viewport: { width: 1200, height: 900 } }, async (tab, seen) => {
  const session = await tab.context().newCDPSession(tab);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const began = performance.now();
  await tab.goto(pathToFileURL(resolve(page, "index.html")).href);
  await tab.locator("figure .picture svg").first().waitFor();
  const opened = performance.now() - began;
  const processor = (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  assert.ok((await tab.locator("section tbody").first().innerText()).includes("100,000"), "the last step is not shown");
  assert.ok(await tab.getByText("mean of several log lines").first().isVisible());
  await drawAll(tab);
  const heap = (await tab.evaluate(() => performance.memory.usedJSHeapSize)) / 2 ** 20;
  const [own, whole] = largestRenderer();
  assert.ok(own > 0, "no renderer was found");
  assert.ok(own < 200, `the renderer has ${own} MB of its own`);
  assert.deepEqual(seen.trouble, []);
  const megabytes = (path) => (statSync(path).size / 1e6).toFixed(1);
  console.log(`long.e2e: passed; metrics.jsonl ${megabytes(join(run, "metrics.jsonl"))} MB, the page ${megabytes(join(page, "index.html"))} MB, ` +
    `its first chart after ${Math.round(opened)} ms (${Math.round(1000 * processor)} ms of the processor), renderer ${Math.round(own)} MB (${Math.round(whole)} with the program), heap ${Math.round(heap)} MB`);
});
