#!/usr/bin/env python3
"""Reads TensorBoard event files without any library: read_events.py FOLDER prints every event as a line of JSON, files in the order of
their names. Exit code 1 where a checksum or a length is wrong. The checksum and the wire format are written here from their definitions."""
import json
import pathlib
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, length_crc = struct.unpack_from("<QI", data)
        message = data[12:12 + length]
        (message_crc,) = struct.unpack_from("<I", data, 12 + length)
        assert masked(data[:8]) == length_crc, "the checksum of a length is wrong"
        assert len(message) == length and masked(message) == message_crc, "the checksum of a message is wrong"
        yield message
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Number and value of every field: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(kind) or varint(data, at)
            value, at = data[at:at + size], at + size
        yield number, value


def double(data):
    return struct.unpack("<d", data)[0]


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def histogram(data):
    found = dict(fields(data))
    names = {1: "min", 2: "max", 3: "num", 4: "sum", 5: "sum_squares"}
    return {**{name: double(found.get(number, bytes(8))) for number, name in names.items()},
            "limits": doubles(found[6]), "buckets": doubles(found[7])}


def value(data):
    found = dict(fields(data))
    result = {"tag": found[1].decode()}
    if 2 in found:
        result["scalar"] = struct.unpack("<f", found[2])[0]
    if 5 in found:
        result["histogram"] = histogram(found[5])
    if 8 in found:
        tensor = dict(fields(found[8]))
        assert tensor[1] == 7, "a tensor that is not of strings"
        result["text"] = tensor[8].decode()
        result["plugin"] = dict(fields(dict(fields(found[9]))[1]))[1].decode()
    return result


def event(data):
    found = dict(fields(data))
    result = {"time": double(found[1]), "step": found.get(2, 0)}
    if 3 in found:
        result["version"] = found[3].decode()
    if 5 in found:
        result["values"] = [value(entry) for number, entry in fields(found[5]) if number == 1]
    if 7 in found:
        result["session"] = dict(fields(found[7]))[1]
    return result


for path in sorted(pathlib.Path(sys.argv[1]).glob("events.out.tfevents.*")):
    for message in records(path.read_bytes()):
        print(json.dumps(event(message)))
