// Debian's Chromium, driven by Playwright: a page whose console errors and requests are remembered.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server"];

export async function withPage(options, use) {
  const profile = mkdtempSync(join(tmpdir(), "bridle-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    timeout: 120000, executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: flags, ...options,
  });
  try {
    const page = context.pages()[0] ?? (await context.newPage());
    page.setDefaultTimeout(120000); // a machine may be busy: only what never comes is a failure
    const trouble = [];
    const requests = [];
    page.on("console", (message) => message.type() === "error" && trouble.push(message.text()));
    page.on("pageerror", (error) => trouble.push(String(error)));
    page.on("dialog", (dialog) => {
      trouble.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => requests.push(request.url()));
    await use(page, { trouble, requests });
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}
