// A page that follows a run: node live.e2e.mjs BRIDLE FOLDER. FOLDER/a is a run that this test writes lines to, as training does.
// The page shows each line, goes on after the server was ended and started again, and takes a run that is new.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, cpSync } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { withPage } from "./browser.mjs";

const [bridle, folder] = process.argv.slice(2);

async function serve(port) {
  const server = spawn(bridle, ["serve", folder, "--port", String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => server.kill("SIGKILL")); // a test that fails leaves nothing behind
  const [line] = await once(server.stdout, "data");
  const address = /http:\/\/\S+/.exec(String(line))[0];
  return { address, port: Number(new URL(address).port), end: async () => {
    server.kill("SIGTERM");
    return (await once(server, "exit"))[0];
  } };
}

const log = (step, loss) => appendFileSync(join(folder, "a", "metrics.jsonl"), `${JSON.stringify({ step, loss, accuracy: 0.5, seconds: step })}\n`);
const shows = (page, step) => page.waitForFunction((text) =>
  [...document.querySelectorAll("section tbody tr td")].some((cell) => cell.textContent === text), String(step), { timeout: 120000 });

let server = await serve(0);
process.on("uncaughtException", (error) => {
  console.error(error);
  process.exit(1);
});
await withPage({ viewport: { width: 1000, height: 800 } }, async (page, seen) => {
  await page.goto(server.address);
  await page.locator("#live", { hasText: /^live$/ }).waitFor();
  log(701, 1.5);
  await shows(page, 701);
  const waits = [];
  for (let step = 702; step < 712; ++step) {
    const began = performance.now();
    log(step, 1.4);
    await shows(page, step);
    waits.push(Math.round(performance.now() - began));
  }
  console.log(`live.e2e: ten lines were shown after ${Math.min(...waits)} to ${Math.max(...waits)} ms`);
  await page.getByLabel("logarithmic loss").check(); // a choice outlives new data
  assert.equal(await server.end(), 0);
  await page.getByText("no answer from the server").waitFor();
  server = await serve(server.port);
  log(713, 1.3);
  await shows(page, 713);
  assert.ok(await page.getByLabel("logarithmic loss").isChecked());
  cpSync(join(folder, "a"), join(folder, "b"), { recursive: true });
  await page.locator(".run .name", { hasText: "b" }).waitFor();
  assert.ok(await page.getByLabel("logarithmic loss").isChecked(), "a run that is new undid a choice");
  const other = seen.requests.filter((url) => !url.startsWith(server.address) && !/^(data|blob):/.test(url));
  assert.deepEqual(other, []);
  assert.deepEqual(seen.trouble.filter((text) => !text.includes("ERR_CONNECTION_REFUSED")), []); // while there was no server
});
await server.end();
console.log("live.e2e: passed");
