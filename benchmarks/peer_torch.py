#!/usr/bin/env python3
"""Times a recipe's training step against the same model, batch, optimizer and constraint in eager PyTorch, in turn in one run.

  benchmarks/peer_torch.py recipes/shakespeare_soft_cap.toml --set training.precision=bfloat16

Each alternation times a few steps of `bridle bench step` and a few of each peer; a ratio is the peer's median step over
Bridle's, within its alternation, and what is printed is the median of the ratios. The peers are processes of their own that
stay alive and wait; what they use of a processor meanwhile is measured and printed. Needs a Python with PyTorch."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SUPPORTED = {"model.positions": ("rope", "learned", "none"), "model.norm": ("none", "layer_norm"), "model.position_bias": (False,),
             "model.learnable_scales": (False,), "optimizer.method": ("muon", "adamw"),
             "constraint.method": ("soft_cap", "normalize", "normalize_estimate", "none", "weight_decay"),
             "constraint.lipschitz": (0.0,), "constraint.heads": ("whole",)}


def environment():
    """PyTorch's own libraries misjudge some machines; the peer gets the same corrections that Bridle makes for itself."""
    env, notes = dict(os.environ), []
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if " avx512f" in flags and "OPENBLAS_CORETYPE" not in env:
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
        notes.append("OPENBLAS_CORETYPE=SkylakeX")
    trial = "import torch; x = torch.randn(64, 64).bfloat16(); x @ x"
    if subprocess.run([sys.executable, "-c", trial], env=env, stderr=subprocess.DEVNULL).returncode < 0:
        env["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
        notes.append("ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, because a bfloat16 product ended in a signal")
    return env, notes


class Peer:
    def __init__(self, mode, settings, threads, env):
        self.process = subprocess.Popen([sys.executable, HERE / "peer_model.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=env, text=True)
        self.parameters = self.ask(json.dumps({"settings": settings, "mode": mode, "threads": threads}))["parameters"]

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"peer_torch: the peer ended with code {self.process.wait()}")
        return json.loads(answer)

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bench(options, steps, warmup):
    command = [options.bridle, "bench", "step", options.recipe, "--steps", str(steps), "--warmup", str(warmup), "--json"]
    for assignment in options.set:
        command += ["--set", assignment]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(result.returncode)
    return json.loads(result.stdout)


def check_supported(settings):
    for key, known in SUPPORTED.items():
        if settings[key] not in known:
            sys.exit(f"peer_torch: there is no peer for {key} = {settings[key]!r}; it knows {', '.join(map(str, known))}")


def alternate(options, peers):
    """One record an alternation: Bridle's median step, each peer's, and what idle peers used of a processor meanwhile."""
    records = []
    for _ in range(options.alternations):
        before, start = {m: p.processor_seconds() for m, p in peers.items()}, time.perf_counter()
        facts = bench(options, options.steps, options.warmup)
        idle = max((p.processor_seconds() - before[m]) / (time.perf_counter() - start) for m, p in peers.items())
        record = {"bridle_s": facts["median_step_s"], "fraction_of_peak": facts["fraction_of_peak"], "idle_share": idle}
        for mode, peer in peers.items():
            record[mode + "_s"] = statistics.median(peer.ask(str(options.peer_steps)))
        records.append(record)
        print("  ".join(f"{key} {value:.4g}" for key, value in record.items()), file=sys.stderr, flush=True)
    return records


def spread(values):
    """Interquartile range over the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / statistics.median(values)


def summary(options, facts, records, notes):
    modes = {}
    for mode in options.modes:
        ratios = [record[mode + "_s"] / record["bridle_s"] for record in records]
        modes[mode] = {"median_step_s": statistics.median(record[mode + "_s"] for record in records),
                       "ratio": statistics.median(ratios), "ratio_spread": spread(ratios), "ratios": ratios}
    ours = [record["bridle_s"] for record in records]
    keys = ("recipe", "set", "version", "commit", "processor", "instruction_set", "threads", "precision", "data", "parameters")
    return {"schema": 1, **{key: facts[key] for key in keys},
            "alternations": len(records), "median_step_s": statistics.median(ours), "spread": spread(ours),
            "fraction_of_peak": statistics.median(record["fraction_of_peak"] for record in records),
            "idle_share": max(record["idle_share"] for record in records), "peer_environment": notes, "peers": modes,
            "records": records}


def print_summary(result):
    print(f"{result['recipe']}, {result['precision']}, {result['alternations']} alternations, {result['threads']} threads")
    for note in result["peer_environment"]:
        print(f"  the peers ran with {note}")
    print(f"  idle peers used at most {100 * result['idle_share']:.1f} % of a core while Bridle was timed")
    print(f"\n{'':<22}{'ms a step':>12}{'spread':>10}{'ratio':>8}{'spread':>10}")
    print(f"{'bridle':<22}{1e3 * result['median_step_s']:>12.1f}{100 * result['spread']:>8.1f} %{'1':>8}")
    for mode, peer in result["peers"].items():
        print(f"{'PyTorch ' + mode:<22}{1e3 * peer['median_step_s']:>12.1f}{'':>10}{peer['ratio']:>8.2f}"
              f"{100 * peer['ratio_spread']:>8.1f} %")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], help="section.key=value over the recipe; may be repeated")
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="Bridle's, in an alternation (default 5)")
    parser.add_argument("--warmup", type=int, default=2, help="before them (default 2)")
    parser.add_argument("--peer-steps", type=int, default=1, help="a peer's, in an alternation (default 1)")
    parser.add_argument("--bridle", default=str(HERE.parent / "build/release/bridle"))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["float32", "bfloat16"])
    parser.add_argument("--json", help="a file for every figure")
    return parser.parse_args()


def main():
    options = parse()
    if not set(options.modes) <= {"float32", "bfloat16"}:
        sys.exit(f"peer_torch: --modes {','.join(options.modes)}; they are float32 and bfloat16")
    facts = bench(options, 1, 0)
    check_supported(facts["settings"])
    env, notes = environment()
    peers = {mode: Peer(mode, facts["settings"], facts["threads"], env) for mode in options.modes}
    for mode, peer in peers.items():
        if peer.parameters != facts["parameters"]:
            sys.exit(f"peer_torch: the peer has {peer.parameters} parameters, Bridle {facts['parameters']}")
    try:
        result = summary(options, facts, alternate(options, peers), notes)
    finally:
        for peer in peers.values():
            peer.close()
    print_summary(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
