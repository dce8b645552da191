#!/usr/bin/env python3
"""check_certificate.py itself: its arithmetic is never too small and hardly too large, it opens every file once,
says in one line what it needs, and stays short."""
import decimal
import math
import operator
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction

import numpy as np

from corpus import HERE, NAMES, load_checker

CHECKER = load_checker()
SCRIPT = pathlib.Path(CHECKER.__file__)
SLACK = 1 + Fraction(1, 10 ** 798)


def random_number(dice):
    """Doubles of all sizes, integers, and numbers with all the digits that there are."""
    kinds = (lambda: CHECKER.size_of(-dice.random() * 10.0 ** dice.randint(-300, 300)),
             lambda: CHECKER.size_of(dice.choice((5e-324, 2.0 ** -1022, 1.7976931348623157e308))),
             lambda: Decimal(dice.choice((0, 1, 2, 3, 4, 2 ** dice.randint(0, 60)))),
             lambda: Decimal(2) ** dice.randint(-60, 60),
             lambda: Decimal((0, [dice.randrange(10) for _ in range(800)], dice.randint(-1200, 400))))
    return dice.choice(kinds)()


def check_operations(a, b):
    exact_a, exact_b = Fraction(a), Fraction(b)
    assert CHECKER.root(a) > 0 if a else CHECKER.root(a) == 0
    assert exact_a + exact_b <= Fraction(a + b) <= (exact_a + exact_b) * SLACK
    assert exact_a * exact_b <= Fraction(a * b) <= exact_a * exact_b * SLACK
    assert exact_a * exact_a <= Fraction(CHECKER.square(a)) <= exact_a * exact_a * SLACK
    assert exact_a <= Fraction(CHECKER.root(a)) ** 2 <= exact_a * SLACK
    if exact_b:
        assert exact_a / exact_b <= Fraction(a / b) <= exact_a / exact_b * SLACK
    if exact_a <= Fraction(CHECKER.LARGEST_FLOAT32):
        above = CHECKER.float32_above(a)
        assert above >= exact_a
        assert above == 0 or Fraction(float(np.nextafter(np.float32(above), np.float32(0)))) < exact_a


def check_exact_results():
    """What a certificate may state to the last digit: nothing is added to an exact result."""
    x = CHECKER.size_of(1 / 3)
    assert x * 1 == x + 0 == x / 1 == 1 / 3
    for root in (0, 1, 3, 2.0 ** -30, 1e15 + 1):
        assert CHECKER.root(Decimal(root) * Decimal(root)) == root


def check_huge_numbers():
    """A network of 64 layers whose activations square in each; logarithms of what no double holds."""
    x = CHECKER.size_of(1e10)
    for _ in range(50):
        x = CHECKER.square(x)
    assert abs(CHECKER.log10(x) / (10 * 2 ** 50) - 1) < 1e-15
    assert abs(CHECKER.log10(1 / x) / (-10 * 2 ** 50) - 1) < 1e-15
    assert CHECKER.log10(Decimal(0)) == -math.inf
    assert x + 1 > x and CHECKER.root(x + 1) > CHECKER.root(x)
    try:
        for _ in range(64):
            x = CHECKER.square(x)
        raise AssertionError("the largest number must be refused")
    except decimal.Overflow:
        pass


def exceeds(matrix, limit):
    """Whether sigma of a matrix of integers is above the limit: an elimination of limit^2 I - W'W in fractions."""
    columns = list(zip(*matrix)) if len(matrix) > len(matrix[0]) else matrix
    rows = [[(Fraction(limit) ** 2 if i == j else 0) - sum(map(operator.mul, a, b)) for j, b in enumerate(columns)]
            for i, a in enumerate(columns)]
    while rows:
        first, *others = rows
        if first[0] < 0 or (first[0] == 0 and any(first)):
            return True
        rows = [[x - (row[0] * y / first[0] if first[0] else 0) for x, y in zip(row[1:], first[1:])]
                for row in others]
    return False


def random_matrix(dice):
    """Integers of 24 bits times powers of two, so that sums of products round; some matrices have few entries."""
    few = [dice.randint(-2 ** 23, 2 ** 23) << dice.randint(0, 9) for _ in range(dice.choice((1, 2, 60)))]
    m, n = dice.choice(((1, 3), (3, 1), (4, 4), (5, 2), (40, 3), (7, 60)))
    return [[dice.choice(few) for _ in range(n)] for _ in range(m)]


def check_proofs_of_norms(count, dice):
    """Nothing is proved that is false, however near it is to what is true; and what is true by 10^-10 is proved."""
    near = 0
    for _ in range(count):
        matrix = random_matrix(dice)
        shift = dice.choice((0, 0, 90, -140))
        weight = np.ldexp(np.float32(matrix), shift).astype(np.float32)
        sigma = math.ldexp(float(np.linalg.norm(np.float64(matrix), 2)), shift)
        spectral, rows = CHECKER.spectral_norm(weight), CHECKER.euclidean_norm(weight)
        for _ in range(12):
            limit = sigma * (1 + dice.randint(-9, 3) * 2.0 ** -52)
            if exceeds(matrix, math.ldexp(limit, -shift)):
                near += 1
                assert not spectral(limit), (matrix, shift, limit)
        assert spectral(sigma * (1 + 1e-10)) and not spectral(sigma * (1 - 1e-10)) or not sigma
        square = max(sum(x * x for x in row) for row in matrix)
        length = math.ldexp(math.sqrt(square), shift)
        for limit in length, math.nextafter(length, 0), math.nextafter(length, math.inf):
            assert not rows(limit) or (Fraction(limit) / Fraction(2) ** shift) ** 2 >= square
        assert rows(length * (1 + 1e-15))
        largest = float(np.abs(weight).max())
        entry = CHECKER.largest_entry(weight)
        assert entry(largest) and not (largest and entry(math.nextafter(largest, 0)))
    assert near > count


def check_opens():
    opened = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    folder = HERE / "bases" / "transformer"
    CHECKER.check_folder(folder / NAMES[0], folder)
    opened = sorted(path for path in opened if path.startswith(str(HERE)))
    assert opened == [str(folder / name) for name in sorted(NAMES)], opened


def run_alone(script, *arguments, options=()):
    """In a process of its own: exit code, output, errors."""
    command = [sys.executable, *options, str(script), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def check_what_is_missing():
    """Without NumPy, which `python -S` does not find, or without the other file: one line, and exit code 1."""
    certificate = HERE / "bases" / "transformer" / NAMES[0]
    code, out, errors = run_alone(SCRIPT, certificate, options=["-I"])
    assert (code, out.split()[0], errors) == (0, "valid", ""), (code, out, errors)
    with tempfile.TemporaryDirectory() as place:
        alone = shutil.copy(SCRIPT, place)
        for script, options, what in (SCRIPT, ["-I", "-S"], "'numpy'"), (alone, ["-I"], "'certificate_files'"):
            code, out, errors = run_alone(script, certificate, options=options)
            assert (code, out, errors.count("\n")) == (1, "", 1), (code, out, errors)
            assert "check_certificate.py needs NumPy" in errors and what in errors, errors


def check_exit_codes():
    certificate = HERE / "bases" / "transformer" / NAMES[0]
    for arguments, code, text in (([certificate], 0, "valid\n"), ([], 2, "usage"), ([certificate, "x"], 2, "usage"),
                                  ([certificate, "--model", HERE / "bases" / "transformer"], 0, "valid\n"),
                                  ([certificate, "--model", HERE / "bases" / "mlp_relu"], 3, "fails"),
                                  ([certificate, "--model", HERE], 1, "config.json"),
                                  ([HERE / "none.json"], 1, "none.json")):
        got, out, errors = run_alone(SCRIPT, *arguments)
        assert got == code and text in out + errors and "Traceback" not in errors, (arguments, got, out, errors)


def check_length():
    """It is read before it is believed."""
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 470, f"{len(lines)} lines"
    for path in SCRIPT, SCRIPT.with_name("certificate_files.py"):
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 110, f"{path.name}:{i} has {len(line)} columns"


def main():
    dice = random.Random(1)
    for _ in range(5000):
        check_operations(random_number(dice), random_number(dice))
    check_exact_results()
    check_huge_numbers()
    check_proofs_of_norms(1000, dice)
    check_opens()
    check_what_is_missing()
    check_exit_codes()
    check_length()
    print("check_certificate.py: passed")


if __name__ == "__main__":
    main()
