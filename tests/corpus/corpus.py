"""Certified folders, small edits of them, and the two checkers side by side.

A case is a base (a folder below bases/) with a list of edits, each a list that begins with its name; EDITS has them
all. The checkers are bridle's, as a process that takes one folder after the other (check_folders.cpp), and
check_certificate.py, imported."""
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("certificate.json", "config.json", "model.safetensors")
CERTIFICATE, CONFIG, WEIGHTS = NAMES
WORDS = {"F32": ("<I", 4), "F16": ("<H", 2), "BF16": ("<H", 2)}


def load_checker(path=HERE.parent.parent / "scripts" / "check_certificate.py"):
    spec = importlib.util.spec_from_file_location("check_certificate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_bases():
    return {folder.name: {name: (folder / name).read_bytes() for name in NAMES}
            for folder in sorted((HERE / "bases").iterdir())}


class Raw:
    """A value that is written as this text, whatever JSON says about it."""

    def __init__(self, text):
        self.text = text


def to_text(value, indent=None):
    raws = []

    def default(raw):
        raws.append(raw.text)
        return f"@raw{len(raws) - 1}@"
    text = json.dumps(value, default=default, indent=indent)
    for i, raw in enumerate(raws):
        text = text.replace(f'"@raw{i}@"', raw)
    return text.encode("utf-8", "surrogatepass")


def at(value, path):
    for key in path:
        value = value[key]
    return value


class Folder:
    """The three files of a certified folder, as bytes; what stands there instead, where it is no regular file."""

    def __init__(self, base):
        self.files, self.instead = dict(base), {}

    def json(self, name):
        if name == "header":
            return json.loads(self.header()[0])
        return json.loads(self.files[name])

    def put_json(self, name, value):
        if name == "header":
            self.put_header(to_text(value), self.header()[1])
        else:
            self.files[name] = to_text(value)

    def header(self):
        data = self.files[WEIGHTS]
        end = 8 + int.from_bytes(data[:8], "little")
        return data[8:end], data[end:]

    def put_header(self, text, data):
        self.files[WEIGHTS] = len(text).to_bytes(8, "little") + text + data

    def place(self, name):
        """Of a tensor in the weight file: dtype, begin, end."""
        text, _ = self.header()
        entry = json.loads(text)[name]
        begin, end = (8 + len(text) + offset for offset in entry["data_offsets"])
        return entry["dtype"], begin, end

    def write(self, folder):
        for name in NAMES:
            path = folder / name
            if path.is_symlink() or path.is_fifo() or path.exists():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            self.write_file(path, self.instead.get(name, ["file"]), self.files[name])

    def write_file(self, path, kind, data):
        if kind[0] in ("file", "sparse"):
            path.write_bytes(data)
        if kind[0] == "sparse":
            os.truncate(path, kind[1])
        elif kind[0] == "fifo":
            os.mkfifo(path)
        elif kind[0] == "directory":
            path.mkdir()
        elif kind[0] == "symlink":
            target = path.with_name("target_of_" + path.name)
            target.write_bytes(data)
            path.symlink_to(target.name)
        elif kind[0] == "dangling":
            path.symlink_to("nowhere")


# ---- Edits

def set_value(folder, name, path, value):
    if not path:
        return folder.put_json(name, value)
    whole = folder.json(name)
    at(whole, path[:-1])[path[-1]] = value
    folder.put_json(name, whole)


def set_raw(folder, name, path, text):
    set_value(folder, name, path, Raw(text))


def delete(folder, name, path):
    whole = folder.json(name)
    del at(whole, path[:-1])[path[-1]]
    folder.put_json(name, whole)


def append_value(folder, name, path, value):
    whole = folder.json(name)
    at(whole, path).append(value)
    folder.put_json(name, whole)


def scale(folder, name, path, factor):
    whole = folder.json(name)
    at(whole, path[:-1])[path[-1]] *= factor
    folder.put_json(name, whole)


def shift(folder, name, path, amount):
    whole = folder.json(name)
    at(whole, path[:-1])[path[-1]] += amount
    folder.put_json(name, whole)


def both(folder, key, value):
    """A key of the configuration, in config.json and in the certificate."""
    value = Raw(value["raw"]) if type(value) is dict and "raw" in value else value
    set_value(folder, CONFIG, [key], value)
    set_value(folder, CERTIFICATE, ["architecture", key], value)


def delete_both(folder, key):
    delete(folder, CONFIG, [key])
    delete(folder, CERTIFICATE, ["architecture", key])


def replace_text(folder, name, old, new):
    assert old.encode() in folder.files[name], old
    folder.files[name] = folder.files[name].replace(old.encode(), new.encode("utf-8", "surrogatepass"), 1)


def insert_bytes(folder, name, place, digits):
    """At a place, counted from the end where it is negative; -1 is the end itself."""
    data = folder.files[name]
    place = len(data) + 1 + place if place < 0 else place
    folder.files[name] = data[:place] + bytes.fromhex(digits) + data[place:]


def put_bytes(folder, name, place, digits):
    data, new = bytearray(folder.files[name]), bytes.fromhex(digits)
    data[place:place + len(new)] = new
    folder.files[name] = bytes(data)


def pad(folder, name, size):
    """With spaces at the end, to so many bytes."""
    folder.files[name] = folder.files[name].ljust(size)


def encode(folder, name, encoding):
    folder.files[name] = folder.files[name].decode().encode(encoding)


def cut(folder, name, size):
    folder.files[name] = folder.files[name][:size]


def header_text(folder, before, after):
    """Text around the header, inside its stated length."""
    text, data = folder.header()
    folder.put_header(before.encode() + text + after.encode(), data)


def pad_header(folder, size):
    text, data = folder.header()
    folder.put_header(text.ljust(size), data)


def tensor_word(folder, name, index, word):
    """One element of a tensor, as an integer of its width."""
    dtype, begin, _ = folder.place(name)
    form, width = WORDS[dtype]
    put_bytes(folder, WEIGHTS, begin + width * index, struct.pack(form, word).hex())


def append_data(folder, digits):
    folder.files[WEIGHTS] += bytes.fromhex(digits)


def seal(folder):
    """So that the SHA-256 is not what fails."""
    whole = folder.json(CERTIFICATE)
    whole["weights"]["sha256"] = hashlib.sha256(folder.files[WEIGHTS]).hexdigest()
    folder.put_json(CERTIFICATE, whole)


def instead(folder, name, *kind):
    """What stands in a file's place: missing, fifo, directory, symlink, dangling, or sparse and its size."""
    folder.instead[name] = list(kind)


EDITS = {f.__name__: f for f in (set_value, set_raw, delete, append_value, scale, shift, both, delete_both,
                                 replace_text,
                                 insert_bytes, put_bytes, pad, encode, cut, header_text, pad_header, tensor_word,
                                 append_data, seal, instead)}


def edited(base, edits):
    folder = Folder(base)
    for name, *arguments in edits:
        EDITS[name](folder, *arguments)
    return folder


# ---- Both checkers

def remember_proofs(checker):
    """Most cases share their weights, so each proof is made once; it depends on the tensor and the limit alone."""
    known = {}

    def remembered(proof):
        def make(w):
            key = proof, w.shape, w.dtype, w.tobytes()
            if len(known) > 100000:
                known.clear()
            if key not in known:
                known[key] = functools.lru_cache(1000)(proof(w))
            return known[key]
        return make
    checker.PROOFS.update({what: remembered(proof) for what, proof in checker.PROOFS.items()})
    return checker


class Checkers:
    """Exit codes and messages of the two checkers for folders, some of them at a time. Use as a context."""
    MOST = 32

    def __init__(self, driver):
        self.python = remember_proofs(load_checker())
        memory = pathlib.Path("/dev/shm")
        self.place = pathlib.Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.folders = [self.place / str(i) for i in range(self.MOST)]
        self.written = [{} for _ in self.folders]  # regular files that stand there already
        for folder in self.folders:
            folder.mkdir()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen([driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.place)

    def write(self, i, folder):
        if folder.instead or not self.written[i]:
            folder.write(self.folders[i])
            self.written[i] = {} if folder.instead else dict(folder.files)
            return
        for name in NAMES:
            if self.written[i][name] != folder.files[name]:
                (self.folders[i] / name).write_bytes(folder.files[name])
        self.written[i] = dict(folder.files)

    def run_bridle(self):
        line = self.process.stdout.readline().decode("utf-8", "replace")
        assert line, "bridle's checker has ended"
        code, _, message = line.partition(" ")
        return int(code), message.strip()

    def run_python(self, path):
        try:
            _, loose = self.python.check_folder(path / CERTIFICATE, path)
            return 0, "not tight" if loose else "valid"
        except self.python.Unreadable as error:
            return 1, str(error)
        except self.python.Refused as error:
            return 3, str(error)

    def verdicts(self, folders):
        """Of bridle and of check_certificate.py for at most MOST folders, each a code and a message. The two work at the
        same time."""
        paths = self.folders[:len(folders)]
        for i, folder in enumerate(folders):
            self.write(i, folder)
        self.process.stdin.write("".join(f"{path}\n" for path in paths).encode())
        self.process.stdin.flush()
        python = [self.run_python(path) for path in paths]
        return list(zip([self.run_bridle() for _ in paths], python))
