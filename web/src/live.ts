// Follows a server: asks for newer data again and again, and takes it when there is some.
import { readReport } from "./data";
import type { Store } from "./store";

const pause = 1000; // milliseconds

export function follow(store: Store): void {
  const shown = document.getElementById("live")!;
  let tag = "";
  const ask = async () => {
    try {
      const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") ?? "";
        const report = readReport(await answer.json());
        const known = store.data.runs.map((run) => run.name).join("\n");
        if (report.runs.map((run) => run.name).join("\n") !== known) return location.reload(); // other runs, another page
        store.replace(report);
      } else if (answer.status !== 304) {
        throw new Error(String(answer.status));
      }
      shown.textContent = "live";
    } catch {
      shown.textContent = "no answer from the server; trying again";
    }
    setTimeout(ask, pause);
  };
  void ask();
}
