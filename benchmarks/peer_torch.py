#!/usr/bin/env python3
"""Times a recipe's training step against the same model, batch, optimizer and constraint in PyTorch, in one run.

  benchmarks/peer_torch.py recipes/shakespeare_soft_cap.toml --python 'scripts/on_debian sid python3'

PyTorch is what --python has. It runs in several modes: float32 and bfloat16, eager and compiled, attention written out
and as scaled_dot_product_attention. Each alternation times a few steps of `bridle bench step` and a few of each mode; a
ratio is the mode's median step over Bridle's within its alternation. The fastest mode is the one with the least median
over all alternations, and its ratios are the result. A mode that fails is reported with its reason. Peers are processes
of their own that stay alive and wait; what they use of a processor meanwhile is measured and printed."""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODES = [precision + how + attention for precision in ("float32", "bfloat16") for how in ("_eager", "_compile")
         for attention in ("", "_sdpa")]
SUPPORTED = {"model.positions": ("rope", "learned", "none"), "model.norm": ("none", "layer_norm"),
             "model.position_bias": (False,), "model.learnable_scales": (False,), "optimizer.method": ("muon", "adamw"),
             "constraint.method": ("soft_cap", "normalize", "normalize_estimate", "none", "weight_decay"),
             "constraint.lipschitz": (0.0,), "constraint.heads": ("whole",)}
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.1}  # of --self-check
INHERITED = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_", "TORCH")

# PYTHON may be in a system that neither has the worker's file nor passes variables on: both come by standard input.
# What libraries print goes to standard error.
START = """import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
start = json.loads(sys.stdin.readline())
os.environ.update(start["environment"])
exec(compile(start["source"], "peer_model.py", "exec"), globals())"""
PROBE = """import time, torch
open("/proc/cpuinfo").close()  # without it PyTorch does not know the processor
def seconds(x):
    start = time.perf_counter()
    x @ x
    return time.perf_counter() - start
x = torch.randn(512, 512)
print(min(seconds(x) for _ in range(20)), file=answers, flush=True)
x.bfloat16() @ x.bfloat16()"""


class PeerFailed(Exception):
    pass


class Worker:
    """A Python that executes a source text, and JSON lines to and from it."""

    def __init__(self, python, environment, source):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*python, "-c", START], stdin=pipe, stdout=pipe, text=True)
        self.send({"environment": environment, "source": source})

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() says how it ended

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise PeerFailed(f"ended by signal {-code}" if code < 0 else f"ended with code {code}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise PeerFailed(answer["error"])
        return answer

    def ask(self, message):
        self.send(message)
        return self.receive()

    def close(self):
        """Returns whether it ended by a signal."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        return code < 0 or code > 128


def probe(python, environment):
    """Seconds of a float32 product, and whether a bfloat16 one ends in a signal."""
    worker = Worker(python, environment, PROBE)
    try:
        return worker.receive(), worker.close()
    except PeerFailed as error:
        sys.exit(f"peer_torch: --python must be a Python that has PyTorch and sees /proc; {shlex.join(python)} {error}")


def peer_environment(python):
    """PyTorch's own libraries misjudge some machines; the peers get the corrections that Bridle makes for itself."""
    environment, notes = {key: value for key, value in os.environ.items() if key.startswith(INHERITED)}, []
    seconds, crashed = probe(python, environment)
    if " avx512f" in pathlib.Path("/proc/cpuinfo").read_text() and "OPENBLAS_CORETYPE" not in environment:
        corrected = {**environment, "OPENBLAS_CORETYPE": "SkylakeX"}
        if probe(python, corrected)[0] < seconds / 1.5:
            environment = corrected
            notes.append("OPENBLAS_CORETYPE=SkylakeX, because float32 products were slower without")
    if crashed:
        environment["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
        notes.append("ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, because a bfloat16 product ended in a signal")
    return environment, notes


def bench(options, steps, warmup):
    command = [options.bridle, "bench", "step", options.recipe]
    command += ["--steps", str(steps), "--warmup", str(warmup), "--json"]
    for assignment in options.set:
        command += ["--set", assignment]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(result.returncode)
    return json.loads(result.stdout)


def check_supported(settings):
    for key, known in SUPPORTED.items():
        if settings[key] not in known:
            sys.exit(f"peer_torch: there is no peer for {key} = {settings[key]!r}; "
                     f"it must be one of {', '.join(map(str, known))}")


def start_peers(options, facts, environment):
    """A worker per mode that has warmed up, with what it says of itself; and the reasons of those that failed."""
    source, peers, about, failed = (HERE / "peer_model.py").read_text(), {}, {}, {}
    has_attention = facts["settings"]["model.kind"] != "mlp"
    for mode in (mode for mode in options.modes if has_attention or not mode.endswith("_sdpa")):
        worker = Worker(options.python, environment, source)
        request = {"mode": mode, "check": options.self_check, **{key: facts[key] for key in ("settings", "threads")}}
        try:
            about[mode], peers[mode] = worker.ask(request), worker
        except PeerFailed as error:
            failed[mode] = str(error)
            worker.close()
            print(f"PyTorch {mode} is left out, it failed: {error}", flush=True)
    if not peers:
        sys.exit("peer_torch: every mode failed")
    return peers, about, failed


def check_parameters(about, facts):
    for mode in about:
        if about[mode]["parameters"] != facts["parameters"]:
            sys.exit(f"peer_torch: the peer has {about[mode]['parameters']} parameters, Bridle {facts['parameters']}")


def self_check(about):
    """Prints how far each mode's loss and gradients are from those of float32_eager; returns an exit code."""
    wrong = False
    for mode, facts in about.items():
        fits = facts["difference"] <= TOLERANCES[mode.split("_")[0]]
        wrong = wrong or not fits
        print(f"PyTorch {facts['torch']} {mode}: largest relative difference of loss and gradients "
              f"{facts['difference']:.1e}{'' if fits else ', too large'}")
    return int(wrong)


def alternate(options, peers):
    """One record per alternation: the median step of Bridle and of each mode, and what idle peers used of a core."""
    records = []
    for _ in range(options.alternations):
        facts = bench(options, options.steps, options.warmup)
        record = {"bridle_s": facts["median_step_s"], "fraction_of_peak": facts["fraction_of_peak"], "idle_share": 0.0}
        for mode, peer in peers.items():
            answer = peer.ask(options.peer_steps)
            record[mode + "_s"] = statistics.median(answer["seconds"])
            record["idle_share"] = max(record["idle_share"], answer["idle_share"])
        records.append(record)
        print("  ".join(f"{key} {value:.4g}" for key, value in record.items()), file=sys.stderr, flush=True)
    return records


def spread(values):
    """Interquartile range over the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / statistics.median(values)


def summary(facts, about, records):
    peers = {}
    for mode in about:
        ratios = [record[mode + "_s"] / record["bridle_s"] for record in records]
        peers[mode] = {"median_step_s": statistics.median(record[mode + "_s"] for record in records),
                       "ratio": statistics.median(ratios), "ratio_spread": spread(ratios), "ratios": ratios}
    fastest = min(peers, key=lambda mode: peers[mode]["median_step_s"])
    ours = [record["bridle_s"] for record in records]
    keys = ("recipe", "set", "version", "commit", "processor", "instruction_set", "threads", "precision", "data",
            "parameters")
    return {"schema": 2, **{key: facts[key] for key in keys}, "torch": about[fastest]["torch"],
            "alternations": len(records), "median_step_s": statistics.median(ours), "spread": spread(ours),
            "fraction_of_peak": statistics.median(record["fraction_of_peak"] for record in records),
            "idle_share": max(record["idle_share"] for record in records),
            "fastest": fastest, "ratio": peers[fastest]["ratio"], "peers": peers, "records": records}


def print_summary(result):
    print(f"{result['recipe']}, {result['precision']}, {result['alternations']} alternations, "
          f"{result['threads']} threads, {result['processor']}")
    for note in result["peer_environment"]:
        print(f"  the peers ran with {note}")
    print(f"  idle peers used at most {100 * result['idle_share']:.1f} % of a core")
    print(f"\n{'':<32}{'ms per step':>12}{'spread':>10}{'ratio':>8}{'spread':>10}")
    print(f"{'bridle':<32}{1e3 * result['median_step_s']:>12.1f}{100 * result['spread']:>8.1f} %{'1':>8}")
    for mode, peer in result["peers"].items():
        print(f"{'PyTorch ' + mode:<32}{1e3 * peer['median_step_s']:>12.1f}{'':>10}{peer['ratio']:>8.2f}"
              f"{100 * peer['ratio_spread']:>8.1f} %")
    for mode, reason in result["failed"].items():
        print(f"{'PyTorch ' + mode:<32}failed: {reason}")
    ratios = result["peers"][result["fastest"]]["ratios"]
    print(f"\n{result['ratio']:.1f} times as fast as the fastest PyTorch mode ({result['fastest']}, "
          f"version {result['torch']}); {min(ratios):.1f} to {max(ratios):.1f} over the alternations")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], help="section.key=value over the recipe; may be repeated")
    parser.add_argument("--python", type=shlex.split, default=[sys.executable],
                        help="the Python that has PyTorch, with arguments (default: the one that runs this)")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES, help=f"of {','.join(MODES)}")
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="Bridle's per alternation (default 5)")
    parser.add_argument("--warmup", type=int, default=2, help="before them (default 2)")
    parser.add_argument("--peer-steps", type=int, default=1, help="each mode's per alternation (default 1)")
    parser.add_argument("--self-check", action="store_true",
                        help="instead of timing, compare each mode's loss and gradients with those of float32_eager")
    parser.add_argument("--bridle", default=str(HERE.parent / "build/release/bridle"))
    parser.add_argument("--json", help="a file for every figure")
    options = parser.parse_args()
    if not set(options.modes) <= set(MODES):
        sys.exit(f"peer_torch: --modes must be of {', '.join(MODES)}, got {','.join(options.modes)}")
    return options


def main():
    options = parse()
    facts = bench(options, 1, 0)
    check_supported(facts["settings"])
    environment, notes = peer_environment(options.python)
    peers, about, failed = start_peers(options, facts, environment)
    try:
        if options.self_check:
            sys.exit(self_check(about))
        check_parameters(about, facts)
        records = alternate(options, peers)
    finally:
        for peer in peers.values():
            peer.close()
    result = {**summary(facts, about, records), "failed": failed, "peer_environment": notes}
    print_summary(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except PeerFailed as error:
        sys.exit(f"peer_torch: a peer failed: {error}")
