// Builds the page: one HTML file with style and script inside. node build.mjs [OUT], report.html in dist/ by default.
// The content security policy names the script by its digest and allows no other, so that nothing in a run's files can run.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist", "report.html");

const bundle = await build({
  entryPoints: [join(here, "src", "main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  charset: "ascii",
  write: false,
});
const style = await build({ entryPoints: [join(here, "src", "style.css")], minify: true, write: false });

// "</script" ends a script wherever it stands, and "<!--" can hide the end of one.
const script = bundle.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const digest = createHash("sha256").update(script).digest("base64");
const policy = [
  "default-src 'none'",
  `script-src 'sha256-${digest}'`,
  "style-src 'unsafe-inline'",
  "img-src data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const page = readFileSync(join(here, "src", "index.html"), "utf8")
  .replace("%POLICY%", () => policy)
  .replace("%STYLE%", () => style.outputFiles[0].text.trim())
  .replace("%SCRIPT%", () => script);
mkdirSync(dirname(out), { recursive: true });
writeFileSync(`${out}.new`, page);
renameSync(`${out}.new`, out);
