#!/usr/bin/env python3
"""Checks on the tree's shape: direction of includes, narrow headers, a test for every source, no raw pointers outside
kernels/, no dead links in the docs, every folder of src/ in the docs' lists, no word that the glossary forbids, prose of at most
100 columns. Prints every finding; exit code 1 if there is one."""
import pathlib
import re
import subprocess
import sys

import wrap_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A stage may include what stands before it. Stages in one set are siblings and never include one another.
STAGES = [{"base"}, {"kernels"}, {"linalg"}, {"data", "nn", "optim", "constraint"}, {"certify"}, {"robust"}, {"io"},
          {"dist"}, {"train"}, {"sweep"}, {"report"}]
PUBLIC_STAGE = {"error": "base", "upper_bound": "base", "architecture": "base", "bound": "base", "param": "base", "random": "base",
                "progress": "base", "metrics": "base", "ranks": "dist", "linalg": "linalg", "constraint": "constraint", "tokenizer": "data", "data": "data",
                "loader": "data", "nn": "nn", "certify": "certify", "predictions": "robust", "attack": "robust", "model_folder": "io",
                "certificate_file": "io", "optim": "optim", "safetensors": "io", "train": "train", "run": "train", "export": "train", "quantize": "train", "foreign": "io", "head_logits": "certify", "sweep": "sweep",
                "report": "report", "serve": "report",
                "bridle": None}
BROAD = {"torch/torch.h", "torch/all.h", "torch/extension.h", "torch/script.h", "ATen/ATen.h", "ATen/Functions.h"}

TEXTS = {".h", ".cpp", ".md", ".py", ".sh", ".toml", ".ts", ".mjs", ".cmake", ".txt", ""}

findings = []


def report(path, message):
    findings.append(f"{path.relative_to(ROOT)}: {message}")


def committed():
    """Files that git knows and that are there; all where there is no git, as in a release's archive."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        return sorted(p for folder in ("src", "include", "cli", "docs", "scripts", "recipes", "experiments", "tests", "web/src")
                      for p in (ROOT / folder).rglob("*") if p.is_file())
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def sources(*folders, suffixes=(".h", ".cpp")):
    return sorted(p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in suffixes)


def rank(stage):
    return next(i for i, group in enumerate(STAGES) if stage in group)


def stage_of_include(name):
    parts = name.split("/")
    if parts[0] == "bridle":
        stem = pathlib.Path(parts[1]).stem
        if stem not in PUBLIC_STAGE:
            return f"unknown public header {name}: name its stage in scripts/check_tree.py"
        return PUBLIC_STAGE[stem]
    return parts[0] if any(parts[0] in group for group in STAGES) else None


def check_includes():
    for path in sources("src", "include"):
        relative = path.relative_to(ROOT)
        own = relative.parts[1] if relative.parts[0] == "src" else PUBLIC_STAGE.get(path.stem)
        if own is None or relative.parts == ("src", path.name):
            continue  # operators.cpp and bridle.h see everything
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            other = stage_of_include(name)
            if other is None:
                continue
            if " " in other:
                report(path, other)
            elif other != own and rank(other) >= rank(own):
                report(path, f"{own}/ must not include {name}: {other}/ does not stand before it")


def check_narrow_headers():
    for path in sources("src", "include", "cli", "tests", "benchmarks", "examples"):
        for name in re.findall(r"#include <([^>]+)>", path.read_text()):
            if name in BROAD:
                report(path, f"includes <{name}>, which takes many seconds: include the narrow headers")


def check_pointers_and_flags():
    for path in sources("src", "cli"):
        if "kernels" not in path.parts and not path.stem.startswith("fused_") and "data_ptr" in path.read_text():
            report(path, "uses data_ptr outside kernels/ and fused passes")
    for path in [ROOT / "CMakeLists.txt", *sorted((ROOT / "cmake").glob("*.cmake"))]:
        text = re.sub(r"#.*", "", path.read_text())
        for flag in ("-march=native", "-ffast-math", "-Ofast", "-funsafe-math-optimizations"):
            if flag in text:
                report(path, f"uses {flag}")


def check_every_source_has_a_test():
    for path in sources("src", suffixes=(".cpp",)):
        stem = re.sub("_(plain|avx2|avx512|avx512_bf16|amx)$", "", path.stem)  # a variant is tested against its plain twin
        test = ROOT / "tests" / path.relative_to(ROOT / "src").with_name(stem + "_test.cpp")
        if not test.exists():
            report(path, f"has no test: {test.relative_to(ROOT)}")


def anchors(page):
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def check_links():
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")),
                 *sorted((ROOT / "benchmarks").rglob("*.md")), *sorted((ROOT / "experiments").rglob("*.md"))]:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            page = path.parent / target if target else path
            if not page.exists():
                report(path, f"links to {target}, which does not exist")
            elif anchor and page.suffix == ".md" and anchor not in anchors(page):
                report(path, f"links to #{anchor} of {page.name}, which has no such heading")
    for path in sources("src", "include", "cli", "tests", "benchmarks", "examples"):
        for target in re.findall(r"(?:docs|recipes|experiments)/[\w/]+\.(?:md|toml)", path.read_text()):
            if not (ROOT / target).exists():
                report(path, f"names {target}, which does not exist")


def check_lists_of_folders():
    """The table of docs/architecture.md and the map of README.md name the folders of src/, all of them and no other."""
    folders = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
    architecture, readme = ROOT / "docs/architecture.md", ROOT / "README.md"
    row = next((line for line in readme.read_text().splitlines() if line.startswith("| `src/")), "")
    lists = {architecture: set(re.findall(r"^\| `src/(\w+)/`", architecture.read_text(), flags=re.M)),
             readme: set(re.findall(r"`(?:src/)?(\w+)`", row))}
    for path, named in lists.items():
        for name in sorted(folders - named):
            report(path, f"does not list src/{name}")
        for name in sorted(named - folders):
            report(path, f"lists src/{name}, which does not exist")


def forbidden_words():
    """Pattern and replacement of every row of the glossary's last table."""
    table = (ROOT / "docs/glossary.md").read_text().partition("\n## Not these\n")[2]
    for row in re.findall(r"^\| (`.*`) \| (.*) \|$", table, flags=re.M):
        for pattern in re.findall(r"`([^`]+)`", row[0]):
            yield re.compile(pattern.replace("\\|", "|"), re.I), row[1]


def check_words():
    words = list(forbidden_words())
    if len(words) < 5:
        report(ROOT / "docs/glossary.md", "has no list of words that are not used")
    files = [p for p in committed() if p.suffix in TEXTS and p != ROOT / "docs/glossary.md" and p.stat().st_size < 2**20]
    for path in files:
        lines = [str(path.relative_to(ROOT)), *path.read_text(errors="replace").splitlines()]
        for pattern, instead in words:
            for number, line in enumerate(lines):
                if pattern.search(line):
                    report(path, f"line {number}: '{pattern.search(line)[0].strip()}'; write instead: {instead}")


def check_lengths():
    """Prose of README, CONTRIBUTING and docs/ ends at 100 columns."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if numbers := list(wrap_docs.too_long(path.read_text())):
            report(path, f"lines {', '.join(map(str, numbers[:5]))} are longer than {wrap_docs.WIDTH} columns: run scripts/wrap_docs.py")


for check in (check_includes, check_narrow_headers, check_pointers_and_flags, check_every_source_has_a_test,
              check_links, check_lists_of_folders, check_words, check_lengths):
    check()
print("\n".join(findings) or "check_tree: passed")
sys.exit(1 if findings else 0)
