#!/usr/bin/env python3
"""Small folders that ask for much: both checkers, and certify, refuse them within 200 MB above what an ordinary check
takes: check_memory.py BRIDLE"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from corpus import CERTIFICATE, CONFIG, HERE, WEIGHTS, Folder, edited, load_bases

MOST = 200 * 2 ** 20
BASES = load_bases()
PYTHON = [sys.executable, str(HERE.parent.parent / "scripts" / "check_certificate.py")]


def with_text(base, name, data):
    folder = Folder(BASES[base])
    folder.files[name] = data
    return folder


def many_matrices(count):
    folder = Folder(BASES["mlp_relu"])
    c = folder.json(CERTIFICATE)
    c["matrices"] = [{"name": f"m{i}", "shape": [1], "method": "sums", "largest_entry": 1.0} for i in range(count)]
    folder.put_json(CERTIFICATE, c)
    return folder


def two_by_two(layer_sizes):
    folder = Folder(BASES["mlp_one_layer"])
    for edit in (["both", "layer_sizes", layer_sizes],):
        folder = edited(folder.files, [edit])
    entry = {"model.layers.0.weight": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}
    folder.put_header(json.dumps(entry).encode(), bytes(8))
    return folder


def cases():
    """Name, folder, the exit code of a check and of certify; none where certify is not asked."""
    deep = edited(BASES["transformer"], [["both", "num_hidden_layers", 2 ** 24]])
    yield "16777216 layers", deep, 3, 1
    yield "a 30000 x 30000 matrix", two_by_two([30000, 30000]), 3, 1
    yield "8 GB behind the tensors", edited(BASES["mlp_relu"], [["instead", WEIGHTS, "sparse", 2 ** 33]]), 3, 1
    yield "8 GB of configuration", edited(BASES["mlp_relu"], [["instead", CONFIG, "sparse", 2 ** 33]]), 1, 1
    yield "8 GB of certificate", edited(BASES["mlp_relu"], [["instead", CERTIFICATE, "sparse", 2 ** 33]]), 1, None
    yield "300000 matrices", many_matrices(300000), 1, None
    yield "50000 matrices", many_matrices(50000), 3, None
    yield "brackets", with_text("mlp_relu", CERTIFICATE, b"[" * 2 ** 22), 1, None
    yield "empty objects", with_text("mlp_relu", CERTIFICATE, b"[" + b",".join([b"{}"] * 1390000) + b"]"), 3, None
    yield "a long key", with_text("mlp_relu", CONFIG,
                                  b'{"model_type": "bridle_mlp", "' + b"k" * 4000000 + b'": 1}'), 3, 1
    yield "many keys", with_text("mlp_relu", CONFIG,
                                 json.dumps({"model_type": "bridle",
                                             **{f"k{i}": 0 for i in range(200000)}}).encode()), 1, 1
    for name in CERTIFICATE, CONFIG, WEIGHTS:
        yield f"a FIFO as {name}", edited(BASES["mlp_relu"],
                                          [["instead", name, "fifo"]]), 1, None if name == CERTIFICATE else 1


def run(command):
    """Exit code and the most memory, in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024


def main():
    bridle, wrong = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        certificate = folder / CERTIFICATE
        check, checker, certify = [bridle, "check", certificate], [*PYTHON, certificate], [bridle,
                "certify", folder]
        Folder(BASES["mlp_relu"]).write(folder)
        ordinary = {tuple(map(str, command)): run(command)[1] for command in (check, checker)}
        ordinary[tuple(map(str, certify))] = ordinary[tuple(map(str, check))]
        for name, files, check_code, certify_code in cases():
            files.write(folder)
            for command, wanted in ((check, check_code), (checker, check_code), (certify, certify_code)):
                if wanted is None:
                    continue
                code, memory = run(command)
                more = memory - ordinary[tuple(map(str, command))]
                if code != wanted or more > MOST:
                    wrong += 1
                    print(f"{name}: {' '.join(map(str, command))}: exit code {code} instead of {wanted}, "
                          f"{more >> 20} MB more than an ordinary check")
    print(f"memory: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
