#!/usr/bin/env python3
"""Wraps the prose of Markdown files at 100 columns: wrap_docs.py [FILE…], all that are committed where none is named.

Only paragraphs and list items with a longer line are touched; tables, code blocks, headings and code spans stay as they
are. scripts/check_tree.py finds lines that are too long."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
ITEM = re.compile(r"( *)([-*+]|\d+\.)( +)")
FENCE = re.compile(r" *(```|~~~)")
STARTS_SOMETHING = re.compile(r"[-*+>|]$|#+$|\d+\.$|\||```")  # a word that would mean something else at a line's beginning


def blocks(lines):
    """(is prose, lines): paragraphs and list items one by one, everything else line by line."""
    inside, prose = False, []
    for line in lines:
        fence = FENCE.match(line)
        plain = inside or fence or not line.strip() or re.match(r" *\|.*\| *$|#|<|!\[| *>", line)
        if prose and (plain or ITEM.match(line)):
            yield True, prose
            prose = []
        if fence:
            inside = not inside
        if plain:
            yield False, [line]
        else:
            prose.append(line)
    if prose:
        yield True, prose


def wrapped(lines):
    """The same words in lines of at most WIDTH columns, the later ones indented as a list item's are."""
    item = ITEM.match(lines[0])
    first = item[0] if item else re.match(" *", lines[0])[0]
    rest = " " * len(first)
    text = " ".join([lines[0][len(first):].strip(), *(line.strip() for line in lines[1:])])
    text = re.sub(r"`[^`]+`", lambda span: span[0].replace(" ", "\0"), text)
    out, line = [], [first]
    for word in text.split():
        words = line[1:]
        if words and len(line[0]) + sum(map(len, words)) + len(words) + len(word) > WIDTH:
            kept = [word]
            while STARTS_SOMETHING.match(kept[0]) and len(words) > 1:  # a line must not begin with it
                kept.insert(0, words.pop())
            out.append(line[0] + " ".join(words))
            line = [rest, *kept]
        else:
            line.append(word)
    return [part.replace("\0", " ") for part in [*out, line[0] + " ".join(line[1:])]]


def wrap(text):
    lines = []
    for is_prose, block in blocks(text.splitlines()):
        lines += wrapped(block) if is_prose and any(len(line) > WIDTH for line in block) else block
    return "\n".join(lines) + "\n"


def too_long(text):
    """Numbers of lines that are longer than they have to be."""
    number = 1
    for is_prose, block in blocks(text.splitlines()):
        if is_prose and any(len(line) > WIDTH for line in block) and wrapped(block) != block:
            yield number
        number += len(block)


def main():
    names = sys.argv[1:] or subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True,
                                           text=True).stdout.splitlines()
    for path in (ROOT / name for name in names):
        text = path.read_text()
        if wrap(text) != text:
            path.write_text(wrap(text))
            print(f"wrapped {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
