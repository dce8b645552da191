#!/usr/bin/env python3
"""Runs both checkers over cases.jsonl and compares with the verdicts that stand there; then certifies the models of
bases/ anew and checks those certificates: check_corpus.py CHECK_FOLDERS BRIDLE"""
import json
import pathlib
import sys
import tempfile

import make_bases
from corpus import CONFIG, HERE, NAMES, WEIGHTS, Checkers, Folder, edited, load_bases

WHO = ("bridle", "check_certificate.py")


def check_cases(checkers, bases):
    wrong = count = 0
    for case in map(json.loads, open(HERE / "cases.jsonl", encoding="utf-8")):
        count += 1
        verdicts = checkers.verdicts([edited(bases[case["base"]], case["edits"])])[0]
        for who, (code, message) in zip(WHO, verdicts):
            if code != case["code"]:
                wrong += 1
                print(f"{case['name']} ({case['base']}): {who} says {code} instead of {case['code']}: {message[:300]}")
    print(f"{count} cases, {wrong} wrong verdicts")
    return wrong == 0 and count > 1000


def check_new_certificates(checkers, bases, bridle):
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        make_bases.make(bridle, pathlib.Path(place))
        for base, files in bases.items():
            new = {name: (pathlib.Path(place) / base / name).read_bytes() for name in NAMES}
            if any(new[name] != files[name] for name in (CONFIG, WEIGHTS)):
                wrong += 1
                print(f"{base}: make_bases.py writes another model")
            for who, (code, message) in zip(WHO, checkers.verdicts([Folder(new)])[0]):
                if (code, message) != (0, "valid"):
                    wrong += 1
                    print(f"{base}, certified anew: {who} says {code}: {message[:300]}")
    print(f"{len(bases)} models certified anew, {wrong} wrong")
    return wrong == 0


def main():
    bases = load_bases()
    with Checkers(sys.argv[1]) as checkers:
        passed = [check_cases(checkers, bases), check_new_certificates(checkers, bases, sys.argv[2])]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
