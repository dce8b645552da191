// Opens a report of three runs and a sweep in a browser and uses it: node report.e2e.mjs FOLDER [PICTURES]. The folder has index.html,
// made of the runs <script>alert(1)<, mlp and wide and of a sweep of six runs (tests/e2e/report.sh). PICTURES: a folder for screenshots.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { withPage } from "./browser.mjs";

const [folder, pictures] = process.argv.slice(2);
const address = pathToFileURL(resolve(folder, "index.html")).href;
const hostile = "<script>alert(1)<";

const picture = async (page, name, fullPage = false) => {
  if (pictures) await page.screenshot({ path: resolve(pictures, `${name}.png`), fullPage });
};
const chart = (page, title) => page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) });
const drawn = (page, title) => chart(page, title).locator(".picture svg");
const wait = (page, check, argument) => page.waitForFunction(check, argument, { timeout: 120000 });

async function opens(page) {
  await page.goto(address);
  for (const title of ["Loss", "Accuracy", "Speed", "Bound over training", "Upper bound and observed stretch",
    "The walk from the input to the logits", "Norms of the matrices", "Accuracy under attack", "Certified accuracy"]) {
    await chart(page, title).scrollIntoViewIfNeeded();
    await drawn(page, title).first().waitFor({ timeout: 120000 });
    assert.ok((await drawn(page, title).locator("path, circle, line").count()) > 3, `${title} is empty`);
  }
  assert.equal(await page.locator("section").first().locator("tbody tr").count(), 3);
}

async function hostileTextsAreShown(page) {
  assert.equal(await page.locator(".run .name", { hasText: hostile }).count(), 1);
  assert.ok((await page.locator("pre").first().innerText()).includes("</script><img src=x onerror=alert(2)>"));
  assert.equal(await page.locator("main script, main img[src='x']").count(), 0);
  assert.ok((await page.locator(".check").first().innerText()).includes("bridle check '"));
  assert.match(await page.locator(".digest").first().innerText(), /^[0-9a-f]{64}$/);
}

async function hovers(page) {
  const loss = drawn(page, "Loss");
  await loss.scrollIntoViewIfNeeded();
  const box = await loss.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await wait(page, () => [...document.querySelectorAll("[aria-label=tip]")].some((tip) => /step \d+/.test(tip.textContent)));
  await picture(page, "hover");
}

async function chooses(page) {
  const lines = () => drawn(page, "Loss").locator("[aria-label=line] path").count();
  const before = await lines();
  await page.locator(".run input").nth(1).uncheck();
  await wait(page, (count) => document.querySelector("figure .picture svg").querySelectorAll("[aria-label=line] path").length < count, before);
  await page.locator(".run input").nth(1).check();
  assert.equal(await lines(), before);
  await page.getByLabel("Smoothing of training curves").fill("0.8");
  await wait(page, (count) => document.querySelector("figure .picture svg").querySelectorAll("[aria-label=line] path").length > count, before);
  await page.getByLabel("logarithmic loss").check();
  await page.getByLabel("logarithmic steps").check();
  await page.getByLabel("over", { exact: true }).selectOption("seconds");
  await chart(page, "Loss").getByText("seconds of training").first().waitFor();
  await page.getByLabel("Filter of settings").fill("hidden_size");
  assert.equal(await page.getByRole("region", { name: "Settings" }).locator("tbody tr").count() > 0, true);
}

async function sweeps(page) {
  const filter = page.getByLabel("Filter of sweep.toml");
  await filter.scrollIntoViewIfNeeded();
  const rows = page.getByRole("region", { name: "Table of sweep.toml" }).locator("tbody tr");
  assert.equal(await rows.count(), 6);
  await filter.fill("sigma_max=2");
  assert.equal(await rows.count(), 3);
  await page.getByText("3 of 6 runs").waitFor();
  await filter.fill("");
  await page.getByRole("button", { name: "training.seed" }).click();
  await page.getByRole("button", { name: "training.seed" }).click();
  assert.equal(await rows.first().locator("td", { hasText: /^2$/ }).count() > 0, true, "not sorted downwards");
  assert.equal(await page.locator("th[aria-sort=descending]").count(), 1);
  await drawn(page, "Frontier: sweep.toml").locator("circle, [aria-label=dot] path").first().waitFor();
  await chart(page, "Settings side by side: sweep.toml").scrollIntoViewIfNeeded();
  const side = drawn(page, "Settings side by side: sweep.toml");
  await side.waitFor();
  assert.equal(await side.locator("[aria-label=line] path").count(), 6);
  await filter.fill("loss<0");
  await page.getByText("0 of 6 runs").waitFor();
  await wait(page, () => [...document.querySelectorAll("figure")].filter((figure) => figure.hidden).length >= 2);
  await filter.fill("");
  await pointsAtALine(page, side);
  await picture(page, "sweep");
}

// The line of the run that the pointer is at stands out, and the run is told.
async function pointsAtALine(page, side) {
  await side.waitFor();
  await side.scrollIntoViewIfNeeded();
  await side.locator("[aria-label=line] path").last().hover({ force: true });
  await wait(page, () => document.querySelector("[aria-label=line] path[style*='stroke-width: 3']"));
  await wait(page, () => [...document.querySelectorAll("[aria-label=tip]")].some((tip) => /training.seed \d/.test(tip.textContent)));
  await page.mouse.move(0, 0);
}

// A saved chart is one picture with title, legend and all of its panels, and runs nothing.
async function saves(page, title, panels) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Save ${title} as SVG` }).click()]);
  assert.match(download.suggestedFilename(), /^[a-z_]+\.svg$/);
  const file = readFileSync(await download.path(), "utf8");
  const found = await page.evaluate((text) => {
    const saved = new DOMParser().parseFromString(text, "image/svg+xml");
    const texts = [...saved.querySelectorAll("text")].map((element) => element.textContent);
    return { root: saved.documentElement.tagName, texts, panels: saved.querySelectorAll("svg > g > [aria-label='x-axis tick label']").length,
      scripts: saved.querySelectorAll("script").length };
  }, file);
  assert.equal(found.root, "svg");
  for (const text of [title, hostile, "mlp", "wide"]) assert.ok(found.texts.includes(text), `${title} was saved without ${text}`);
  assert.deepEqual([found.panels, found.scripts], [panels, 0]);
}

async function turnsDark(page) {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByLabel("theme").selectOption("light");
  const light = await paper();
  await page.getByLabel("theme").selectOption("dark");
  assert.notEqual(await paper(), light);
  await picture(page, "dark", true);
}

// Every control can be reached and is named.
async function worksWithoutAMouse(page) {
  await page.goto(address);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the charts");
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, select, input, svg[role=img], img, [role=region]")]
    .filter((element) => !(element.getAttribute("aria-label") || element.getAttribute("alt") || element.labels?.length || element.textContent.trim()))
    .map((element) => element.outerHTML.slice(0, 80)));
  assert.deepEqual(unnamed, []);
}

await withPage({ viewport: { width: 1200, height: 900 } }, async (page, seen) => {
  await opens(page);
  await picture(page, "light", true);
  await hostileTextsAreShown(page);
  await hovers(page);
  await chooses(page);
  await sweeps(page);
  await saves(page, "Loss", 1);
  await saves(page, "The walk from the input to the logits", 3);
  await turnsDark(page);
  await worksWithoutAMouse(page);
  assert.deepEqual(seen.trouble, []);
  assert.deepEqual(seen.requests.filter((url) => url !== address && !/^(data|blob):/.test(url)), [], "a request");
});

await withPage({ viewport: { width: 390, height: 800 } }, async (page, seen) => {
  await opens(page);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than a phone");
  await picture(page, "phone", true);
  assert.deepEqual(seen.trouble, []);
});
console.log("report.e2e: passed");
