#!/usr/bin/python3
"""Prints a safetensors file as JSON: each tensor's name, dtype, shape, sum, sum weighted by position (sees the order)."""
import json
import sys
import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
         "BOOL": "?", "BF16": "<u2"}
data = open(sys.argv[1], "rb").read()
start = 8 + int.from_bytes(data[:8], "little")
header = json.loads(data[8:start])
result = {"metadata": header.pop("__metadata__", None), "tensors": []}
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    values = np.frombuffer(data[start + begin:start + end], TYPES[entry["dtype"]])
    if entry["dtype"] == "BF16":  # the upper half of a float32
        values = (values.astype("<u4") << 16).view("<f4")
    sums = [float(values.sum(dtype="f8")), float(values.astype("f8") @ np.arange(values.size))]
    result["tensors"].append([name, entry["dtype"], list(values.reshape(entry["shape"]).shape), *sums])
print(json.dumps(result))
