#!/usr/bin/env python3
"""The commands of the docs hold: docs_commands.py BRIDLE [--list]

Every `bridle …` in a fenced block, in inline code, in the head of a recipe or a sweep and in the examples of --help is
checked for verbs, flags, keys, data sets and files that exist. Those of fenced blocks also run, page by page and in
their order, on tiny data sets that stand in for the real ones; training is cut down with --set. What cannot run in
seconds is listed as `parsed only`, with the reason. --list also prints what ran."""
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEWEST_RUNS = 30  # fewer, and it is the test that is broken

# A command begins here, wherever it stands in a line: behind another one, a variable, or in a comment.
BRIDLE = re.compile(r"(?<!\S)(?:build/release/)?bridle\s+(?=\S)")
PROGRAM = re.compile(r"(?:/usr/bin/python3 )?((?:\./|scripts/|experiments/|benchmarks/|tests/|build/release/)\S+)")
IN_THE_TREE = re.compile(r"(?:recipes|experiments|docs|scripts|benchmarks|tests)/")
ANY_BRIDLE = re.compile(r"\bbridle +(?=[\w-])")  # to find a command that is written in a way not foreseen here
OPTIONAL = re.compile(r"\s\[(--[^\]]*)\]")
PLACEHOLDERS = ("section.key=value", "…")

NO_COMMANDS = {"text", "cpp", "cmake", "python", "bibtex"}  # kinds of fenced blocks

SHORT = ["training.steps=2", "training.evaluate_every=0", "training.checkpoint_every=0"]
SMALL = {"transformer": ["data.sequence_length=16", "data.batch_size=2", "model.hidden_size=32"],
         "mlp": ["data.batch_size=8", "model.hidden_sizes=[16, 16]"]}
FEW = {"attack": {"--images": "8", "--steps": "2", "--restarts": "1", "--queries": "2"},
       "bench": {"--steps": "1", "--warmup": "0"},
       "certify": {"--search": "1"},
       "sample": {"--tokens": "20"}}

# Runs that a page speaks of and does not train: the test trains them. Any other must come from the page itself.
RUNS = {"runs/quickstart": "recipes/quickstart.toml",
        "runs/two": "recipes/quickstart.toml",
        "runs/shakespeare_budget": "recipes/shakespeare_budget.toml",
        "runs/cifar": "recipes/cifar_mlp_certified.toml",
        "runs/controller": "recipes/cifar_mlp_soft_cap.toml",
        "runs/robust": "recipes/cifar_mlp_robust_soft_cap.toml",
        "runs/sweeps/cifar_certified/runs/KEY": "recipes/cifar_mlp_certified.toml"}


@dataclasses.dataclass
class Command:
    place: str  # page and line
    text: str   # as it stands there, without "bridle"

    def __str__(self):
        return f"{self.place}: bridle {self.text}"


# ---- what the docs say


def without_remark(text):
    """Up to `#`, a pipe, a redirection, or two spaces that no flag follows."""
    return re.split(r"\s#|\s(?:\||&&|>)\s|\s{2,}(?!\s|-|\[-)", text)[0].strip()


def alternatives(text):
    """`data get A | B` and `[--flag]` written out: each alternative, with and without what is optional."""
    head, *others = re.split(r"\s+\|\s+", text)
    if others and head.startswith("data get "):
        return [without_remark(t) for t in [head, *(f"data get {other}" for other in others)]]
    text = without_remark(text)
    return list(dict.fromkeys([OPTIONAL.sub("", text), OPTIONAL.sub(r" \1", text)]))


def commands_in(line):
    """The texts of all commands in a line."""
    starts = list(BRIDLE.finditer(line))
    ends = [start.start() for start in starts[1:]] + [len(line)]
    return [text for start, end in zip(starts, ends) for text in alternatives(line[start.end():end])]


def fenced_lines(page):
    """Number and text of every line in a fenced block that may be a command: none of code and ```text, and of ```console
    those after `$ `, the others being output. A line that ends with a backslash is one with the next."""
    kind, carried = None, ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            if carried:
                yield number, carried.strip()
            kind, carried = (line.strip("` ") or "plain") if kind is None else None, ""
        elif kind is None or kind in NO_COMMANDS or (kind == "console" and not carried and not line.startswith("$ ")):
            continue
        elif line.endswith("\\"):
            carried += line[:-1].removeprefix("$ ")
        else:
            yield number, (carried + line.removeprefix("$ ")).strip()
            carried = ""


def pages():
    """README first: it is what a user reads first."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in ("docs", "benchmarks", "experiments"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


def place_of(path):
    return str(path.relative_to(ROOT))


def inline_commands():
    for page in pages():
        prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)
        for code in re.findall(r"`([^`]+)`", prose):
            yield from (Command(place_of(page), text) for text in commands_in(" ".join(code.split())))


def header_commands():
    for file in [*sorted((ROOT / "recipes").glob("*.toml")), *sorted((ROOT / "experiments").rglob("*.toml"))]:
        for comment in re.findall(r"^#\s+(bridle .*)", file.read_text(), flags=re.M):
            yield from (Command(place_of(file), text) for text in commands_in(comment))


# ---- what exists


class Facts:
    """Verbs with their flags and examples as --help prints them, keys of recipes, names of known data sets."""

    def __init__(self, bridle):
        self.bridle = bridle
        self.flags, self.subverbs, self.examples = {}, {}, []
        self.read_help(())
        self.keys = {line.split()[0] for line in self.ask("train", "--keys").splitlines()}
        self.data = {entry["name"] for entry in json.loads(self.ask("data", "list", "--json"))["data"]}

    def ask(self, *words):
        return subprocess.run([self.bridle, *words], check=True, capture_output=True, text=True).stdout

    def read_help(self, verb):
        text = self.ask(*verb, "--help")
        options, _, footer = text.partition("\nExamples:")
        names = re.findall(r"^\s+((?:-\w,\s*)?--[\w-]+(?:,--[\w-]+)*)", options, flags=re.M)
        self.flags[verb] = set(re.findall(r"--[\w-]+", " ".join(names)))
        listed = re.search(r"^subcommands:\n((?:  .*\n)+)", options + "\n", flags=re.M | re.I)
        self.subverbs[verb] = re.findall(r"^  (\w+)", listed[1], flags=re.M) if listed else []
        place = " ".join(("bridle", *verb, "--help"))
        self.examples += [Command(place, text) for line in footer.splitlines() for text in commands_in(line)]
        for name in self.subverbs[verb]:
            self.read_help((*verb, name))


def faults_of(text, facts):
    """What a command names that does not exist."""
    try:
        words, verb, faults = shlex.split(text), (), []
    except ValueError as error:
        return [str(error)]
    while facts.subverbs[verb] and words and not words[0].startswith("-"):
        if words[0] not in facts.subverbs[verb]:
            return [f"no verb '{words[0]}'"]
        verb += (words.pop(0),)
    for before, word in zip(["", *words], words):
        flag = word.split("=")[0]
        if flag.startswith("--") and flag not in facts.flags[verb]:
            faults.append(f"'{' '.join(verb)}' has no flag {flag}")
        if before == "--set" and word not in PLACEHOLDERS and word.split("=")[0] not in facts.keys:
            faults.append(f"no key '{word.split('=')[0]}'")
        if IN_THE_TREE.match(word) and not (ROOT / word).exists():
            faults.append(f"{word} does not exist")
        is_value = before in ("--tokenizer", "--merges", "--as")
        if verb == ("data", "get") and not flag.startswith("-") and not is_value and word not in facts.data:
            faults.append(f"no data set '{word}'")
    return faults


def is_program(line):
    return bool(PROGRAM.match(line)) and not BRIDLE.match(line)


def faults_of_program(line):
    """The same for a line that starts another program of the tree."""
    name, words = PROGRAM.match(line)[1], shlex.split(OPTIONAL.sub(r" \1", line), comments=True)
    if name.startswith("build/release/"):
        sources = [f for folder in ("benchmarks", "tests", "examples") for f in (ROOT / folder).rglob("*.cpp")]
        return [] if pathlib.Path(name).name in {f.stem for f in sources} else [f"{name} is not built from any source"]
    paths = [word.split()[0] for word in words if IN_THE_TREE.match(word)]  # a quoted word may be a command
    faults = [f"{path} does not exist" for path in paths if not (ROOT / path).exists()]
    if not (ROOT / name).is_file():
        return faults or [f"{name} does not exist"]
    if words[0] == name and not os.access(ROOT / name, os.X_OK):
        faults.append(f"{name} cannot be executed")
    text = (ROOT / name).read_text()
    return faults + [f"{name} has no flag {flag}" for flag in words if flag.startswith("--") and flag not in text]


# ---- running them


def byte_letters():
    """GPT-2's letter for each byte: itself where it is printable, otherwise the next one from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


def write_manifest(folder, kind, outputs, train=(), validation=()):
    files = [{"file": name, "count": count} for name, count in (*train, *validation)]
    manifest = {"schema": 1, "name": folder.name, "kind": kind, "from": "docs_commands.py", "raw": False,
                "outputs": outputs, "sizes": {f.name: f.stat().st_size for f in folder.iterdir()},
                "train": files[:len(train)], "validation": files[len(train):]}
    (folder / "dataset.json").write_text(json.dumps(manifest))


def write_data(bridle, data):
    """Stand-ins: a text for shakespeare, 32 images for cifar10, single bytes for gpt2."""
    subprocess.run([bridle, "data", "import", "stand-in", "--text", data.parent / "letters.txt"], check=True,
                   capture_output=True, env=os.environ | {"BRIDLE_DATA": str(data)})
    shutil.move(data / "stand-in", data / "shakespeare")

    cifar = data / "cifar10"
    cifar.mkdir()
    for name in ("train.bin", "validation.bin"):
        records = (bytes([i % 10]) + bytes((7 * i + j * (i + 1)) % 256 for j in range(3072)) for i in range(16))
        (cifar / name).write_bytes(b"".join(records))
    write_manifest(cifar, "images", 10, [("train.bin", 16)], [("validation.bin", 16)])

    gpt2 = data / "gpt2"
    gpt2.mkdir()
    tokens = [*byte_letters(), "<|endoftext|>"]
    (gpt2 / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (gpt2 / "merges.txt").write_text("#version: 0.2\n")
    write_manifest(gpt2, "tokenizer", len(tokens))


def write_numbers(folder):
    """A CSV file, a pair of .npy files and PNG images in a folder per class."""
    rows = [f"{i},{i * i % 17},{i % 3}" for i in range(40)]
    (folder / "wine.csv").write_text("acid,sugar,quality\n" + "\n".join(rows) + "\n")
    for name, width in (("X.npy", 3), ("Y.npy", 2)):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (40, {width}), }}".ljust(117) + "\n"
        numbers = struct.pack(f"<{40 * width}f", *(i * 7 % 11 for i in range(40 * width)))
        (folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    for digit in range(2):
        (folder / "digits" / str(digit)).mkdir(parents=True)
        for i in range(6):
            pixels = b"".join(b"\0" + bytes((digit * 100 + i + x + y) % 256 for x in range(4)) for y in range(4))
            png = (chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(pixels))
                   + chunk(b"IEND", b""))
            (folder / "digits" / str(digit) / f"{i}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + png)


def write_gpt2(folder):
    """A GPT-2 of one block, as Hugging Face's tools write it."""
    d, shapes = 8, {"wte.weight": [16, 8], "wpe.weight": [8, 8]}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes |= {f"{name}.weight": [d], f"{name}.bias": [d]}
    for name, ins, outs in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d),
                            ("mlp.c_proj", 4 * d, d)):
        shapes |= {f"h.0.{name}.weight": [ins, outs], f"h.0.{name}.bias": [outs]}
    header, body = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *((i * 37 % 19 - 9) / 30 for i in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    config = {"model_type": "gpt2", "vocab_size": 16, "n_embd": d, "n_layer": 1, "n_head": 2, "n_positions": 8}
    (folder / "config.json").write_text(json.dumps(config))


def write_folder(bridle, folder):
    """What the commands of a page find: recipes, experiments, data, and the files that docs/reference/data.md imports."""
    folder.mkdir()
    for name in ("recipes", "experiments", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    lines = subprocess.run([ROOT / "tests/e2e/words.py", "300"], check=True, capture_output=True, text=True).stdout
    for name in ("letters.txt", "essays.txt"):
        (folder / name).write_text("".join(map(chr, range(32, 127))) + "\n" + lines)
    tokens = struct.pack("<100H", *range(100))
    for name in ("train.bin", "val.bin"):
        (folder / name).write_bytes(tokens)
    header = struct.pack("<256i", 20240520, 1, 100, *[0] * 253)
    for name in ("fineweb_train_000001.bin", "fineweb_val_000000.bin"):
        (folder / name).write_bytes(header + tokens)
    write_numbers(folder)
    write_gpt2(folder / "gpt2")
    write_data(bridle, folder / "data")


def reason_not_to_run(text, facts):
    words = shlex.split(text)
    if any(word in PLACEHOLDERS for word in words):
        return "it has a placeholder"
    if words[0] == "serve":
        return "it goes on until it is ended"
    if words[:2] == ["data", "get"]:
        return "it needs the network"
    if words[:2] == ["data", "import"] and facts.data.intersection(words[2:3]):
        return "it needs the real file"
    if words[:2] == ["sweep", "run"]:
        return "it trains many models; only its status is asked for"
    return None


def cut_down(words):
    """The same command, small: few steps, few weights, few attacks."""
    recipe = next((word for word in words if re.match(r"(recipes|experiments)/.*\.toml$", word)), None)
    if not recipe and (named := [w for w in words[1:] if (ROOT / "recipes" / f"{w}.toml").exists()]):
        recipe = f"recipes/{named[0]}.toml"
    if words[0] == "train" and "--steps" in words:
        place = words.index("--steps")
        words = words[:place] + words[place + 2:]
    if recipe and words[0] in ("train", "bench"):
        kind = tomllib.loads((ROOT / recipe).read_text()).get("model", {}).get("kind", "transformer")
        steps = SHORT if words[0] == "train" else []
        words = [*words, *(part for setting in [*steps, *SMALL[kind]] for part in ("--set", setting))]
    few = FEW.get(words[0], {}).items()
    return [*words, *(part for flag, value in few if flag not in words for part in (flag, value))]


class Folder:
    """Where the commands of one page run."""

    def __init__(self, bridle, template, folder):
        self.bridle, self.folder = bridle, folder
        shutil.copytree(template, folder, symlinks=True)
        self.environment = os.environ | {"BRIDLE_DATA": str(folder / "data")}

    def call(self, arguments):
        """None, or what went wrong."""
        try:
            done = subprocess.run(arguments, cwd=self.folder, env=self.environment, timeout=60, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return "it takes more than a minute"
        return None if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout.strip()[-500:]}"

    def run(self, text):
        words = shlex.split(text)
        return self.make_runs(words) or self.call([self.bridle, *cut_down(words)])

    def make_runs(self, words):
        """Trains what the page takes for granted."""
        for before, word in zip(["", *words], words):
            run = next((run for run in RUNS if word == run or word.startswith(run + "/")), None)
            if run and before != "--out" and not (self.folder / run).exists():
                if fault := self.call([self.bridle, *cut_down(["train", RUNS[run], "--out", run])]):
                    return fault
        return None


# ---- the test of the test


def check_this_test(facts, folder):
    """A wrong verb, flag, key, file, data set, program and exit code are each found; lines are read as meant."""
    for text, fault in {"trian recipes/quickstart.toml": "no verb 'trian'",
                        "data fetch shakespeare": "no verb 'fetch'",
                        "eval runs/x --protocl paper": "no flag --protocl",
                        "train recipes/quickstart.toml --set training.step=5": "no key 'training.step'",
                        "sweep run experiments/shakespeare/none.toml": "none.toml does not exist",
                        "sweep stats experiments/shakespeare/methods.toml": "no verb 'stats'",
                        "data get shakespear": "no data set 'shakespear'"}.items():
        faults = faults_of(text, facts)
        assert len(faults) == 1 and fault in faults[0], f"{text}: {faults}"
    for line, fault in {"scripts/none.py x": "scripts/none.py does not exist",
                        "./none": "./none does not exist",
                        "build/release/benchmarks/none_bench": "not built",
                        "scripts/check --slow  # x": "no flag --slow",
                        "experiments/collect.py experiments/none.json runs/a": "none.json does not exist"}.items():
        faults = faults_of_program(line)
        assert len(faults) == 1 and fault in faults[0], f"{line}: {faults}"
    for line, texts in {
            "bridle data list      what is known": ["data list"],
            "bridle train a.toml --lipschitz 2  --out b   # c": ["train a.toml --lipschitz 2  --out b"],
            "bridle eval a [--protocol paper]     bridle info a": ["eval a", "eval a --protocol paper", "info a"],
            "bridle data get a | b-c": ["data get a", "data get b-c"],
            "BRIDLE_DATA=/x build/release/bridle info --json | jq .a": ["info --json"],
            "bridle sweep run a.toml  # or one: bridle train b.toml": ["sweep run a.toml", "train b.toml"],
            "the word bridle_cli and bridle::Param": []}.items():
        assert commands_in(line) == texts, f"{line}: {commands_in(line)}"
    fault = folder.run("eval runs/none")
    assert fault and "exit code 1" in fault, f"a command that fails was taken for a good one: {fault}"


# ---- the test


class Test:
    def __init__(self, bridle, work):
        self.facts, self.work = Facts(bridle), pathlib.Path(work)
        self.ran, self.parsed, self.faults = [], [], []
        write_folder(bridle, self.work / "template")

    def folder(self, name):
        return Folder(self.facts.bridle, self.work / "template", self.work / name)

    def exists(self, command):
        """Whether all that a command names exists."""
        faults = faults_of(command.text, self.facts)
        self.faults += [f"{command}: {fault}" for fault in faults]
        return not faults

    def run(self, command, folder):
        reason = reason_not_to_run(command.text, self.facts)
        fault = None
        if reason is None:
            self.ran.append(command)
            fault = folder.run(command.text)
        else:
            self.parsed.append(f"{reason}: {command}")
            if command.text.startswith("sweep run "):
                fault = folder.run("sweep status " + command.text.split()[2])
        if fault:
            self.faults.append(f"{command}: {fault}")

    def run_page(self, page):
        folder = self.folder(place_of(page).replace("/", "_"))
        for number, line in fenced_lines(page):
            place = f"{place_of(page)}:{number}"
            if len(ANY_BRIDLE.findall(line)) != len(BRIDLE.findall(line)):
                self.faults.append(f"{place}: a command that this test cannot read: {line}")
            if is_program(line):
                self.faults += [f"{place}: {fault}" for fault in faults_of_program(line)]
                self.run_program(place, line, folder)
            for command in [Command(place, text) for text in commands_in(line)]:
                if self.exists(command):
                    self.run(command, folder)

    def run_program(self, place, line, folder):
        words = shlex.split(line, comments=True)
        if words[0] != "scripts/check_certificate.py":
            return self.parsed.append(f"it is another program: {place}: {' '.join(words)}")
        self.ran.append(f"{place}: {' '.join(words)}")
        if fault := folder.call(["/usr/bin/python3", *words]):
            self.faults.append(f"{place}: {fault}")


def main():
    started = time.monotonic()
    nowhere = "http://127.0.0.1:9/"  # nothing is fetched
    os.environ.update(http_proxy=nowhere, https_proxy=nowhere, npm_config_registry=nowhere, OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as work:
        os.environ["BRIDLE_DATA"] = work + "/none"
        test = Test(os.path.abspath(sys.argv[1]), work)
        check_this_test(test.facts, test.folder("check"))
        for page in pages():
            test.run_page(page)
    others = [*inline_commands(), *header_commands(), *test.facts.examples]
    for command in others:
        test.exists(command)
    if len(test.ran) < FEWEST_RUNS:
        test.faults.append(f"only {len(test.ran)} commands ran, of at least {FEWEST_RUNS}")

    ran = test.ran if "--list" in sys.argv else []
    for title, entries in ("ran", ran), ("parsed only", test.parsed), ("FAULT", test.faults):
        for entry in entries:
            print(f"{title}: {entry}")
    print(f"docs_commands: {len(test.ran)} ran, {len(test.parsed)} were parsed only, {len(others)} outside of fenced "
          f"blocks were parsed; {len(test.faults)} faults; {time.monotonic() - started:.0f} s")
    sys.exit(1 if test.faults else 0)


if __name__ == "__main__":
    main()
