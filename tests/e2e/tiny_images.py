#!/usr/bin/env python3
"""Images to learn from, the same each time: tiny_images.py FOLDER writes a data set like CIFAR-10 of 64 noisy pictures a part, one
bright patch for each class."""
import json
import pathlib
import random
import sys

random.seed(1)
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)


def picture(label):
    pixels = [random.randrange(90) for _ in range(3072)]
    for row in range(8):
        for column in range(8):
            place = 32 * (row + 8 * (label // 4)) + column + 8 * (label % 4)
            for channel in range(3):
                pixels[1024 * channel + place] = 160 + random.randrange(90)
    return bytes([label, *pixels])


for name in ("train.bin", "validation.bin"):
    (folder / name).write_bytes(b"".join(picture(i % 10) for i in range(64)))
sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
parts = {part: [{"file": f"{part}.bin", "count": 64}] for part in ("train", "validation")}
(folder / "dataset.json").write_text(json.dumps({"schema": 1, "name": folder.name, "kind": "images", "from": "tiny_images.py",
                                                 "raw": False, "outputs": 10, "sizes": sizes, **parts}))
