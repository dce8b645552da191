#!/usr/bin/env python3
"""Writes what docs/reference/ says about the program from the program: make_reference.py BRIDLE [--check]

docs/reference/keys.md is made as a whole from `bridle train --keys`. In the pages of docs/reference/commands/, and in
docs/reference/README.md, only what stands between `<!-- help: VERB -->` (or `<!-- commands -->`) and `<!-- end -->` is
made, from --help. With --check nothing is written: exit code 1 where a page is not what the program says."""
import pathlib
import re
import subprocess
import sys

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "docs/reference"
SECTIONS = {"data": "What is learned from", "model": "The network", "optimizer": "How weights learn",
            "schedule": "The learning rate over time", "constraint": "What keeps the bound",
            "training": "How long, how often, how precisely"}
BLOCK = re.compile(r"<!-- (help: [a-z ]+|commands) -->\n.*?<!-- end -->", re.S)


class Bridle:
    def __init__(self, path):
        self.path = path

    def ask(self, *words):
        """Its answer to these arguments. It is told that its name is bridle, so that Usage does not depend on the path."""
        return subprocess.run(["bridle", *words], executable=self.path, check=True, capture_output=True, text=True).stdout

    def verbs(self, *above):
        """Name and purpose of each subcommand."""
        listed = re.search(r"^subcommands:\n((?:  .*\n)+)", self.ask(*above, "--help") + "\n", re.M | re.I)
        return re.findall(r"^  (\w+)\s+(.*)", listed[1], re.M) if listed else []


def cell(text):
    return text.replace("|", "\\|")


def keys_page(bridle):
    rows = {name: [] for name in SECTIONS}
    for line in bridle.ask("train", "--keys").splitlines():
        key, default, meaning = re.match(r"(\S+)\s+('[^']*'|\[[^\]]*\]|true|false|[-+\d.e]+)\s*(.*)$", line).groups()
        default = default.replace("'", '"')
        rows[key.split(".")[0]].append(f"| `{key}` | `{default}` | {cell(meaning)} |")
    parts = ["# Keys of a recipe", "",
             "Made by `scripts/make_reference.py` from `bridle train --keys`. A recipe is TOML with these",
             "sections; `--set section.key=value` goes over it. A key that does not exist is an error that names",
             "the nearest one."]
    for name, title in SECTIONS.items():
        parts += ["", f"## `[{name}]`: {title[0].lower()}{title[1:]}", "| key | default | meaning |", "|---|---|---|", *rows[name]]
    return "\n".join(parts) + "\n"


def block(bridle, what):
    """What stands between the marks."""
    if what == "commands":
        rows = [f"| [`bridle {verb}`](commands/{verb}.md) | {cell(purpose)} |" for verb, purpose in bridle.verbs()]
        body = "\n".join(["| command | what it does |", "|---|---|", *rows])
    else:
        body = f"```text\n{bridle.ask(*what.removeprefix('help: ').split(), '--help').strip()}\n```"
    return f"<!-- {what} -->\n{body}\n<!-- end -->"


def page(bridle, path):
    return BLOCK.sub(lambda found: block(bridle, found[1]), path.read_text())


def missing(bridle):
    """Commands whose help stands on no page."""
    for verb, _ in bridle.verbs():
        path = REFERENCE / "commands" / f"{verb}.md"
        text = path.read_text() if path.exists() else ""
        for name in [f"{verb} {sub}" for sub, _ in bridle.verbs(verb)] or [verb]:
            if f"<!-- help: {name} -->" not in text:
                yield f"docs/reference/commands/{verb}.md has no mark <!-- help: {name} -->"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    bridle, check = Bridle(sys.argv[1]), "--check" in sys.argv
    faults = list(missing(bridle))
    made = {REFERENCE / "keys.md": keys_page(bridle)}
    for path in [REFERENCE / "README.md", *sorted((REFERENCE / "commands").glob("*.md"))]:
        made[path] = page(bridle, path)
    for path, text in made.items():
        if check and (not path.exists() or path.read_text() != text):
            faults.append(f"{path.relative_to(REFERENCE.parent.parent)} is not what {sys.argv[1]} says: run scripts/make_reference.py")
        elif not check:
            path.write_text(text)
    print("\n".join(faults) or f"make_reference: {len(made)} pages {'are as the program says' if check else 'written'}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
