// Follows a server: asks for newer data again and again, and takes it when there is some.
import { readReport } from "./data";
import type { Store } from "./store";

const pause = 500; // milliseconds

// `remake` makes the page anew: of other runs it has other parts.
export function follow(store: Store, remake: () => void): void {
  const say = (text: string) => (document.getElementById("live")!.textContent = text);
  let tag = "";
  const ask = async () => {
    try {
      const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") ?? "";
        const report = readReport(await answer.json());
        const known = store.data.runs.map((run) => run.name).join("\n");
        const same = report.runs.map((run) => run.name).join("\n") === known;
        if (same) {
          store.replace(report);
        } else {
          store.restart(report);
          remake();
        }
      } else if (answer.status !== 304) {
        throw new Error(String(answer.status));
      }
      say("live");
    } catch {
      say("no answer from the server; trying again");
    }
    setTimeout(ask, pause);
  };
  void ask();
}
