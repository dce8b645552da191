#!/usr/bin/env python3
"""check_certificate.py itself: its arithmetic is never too small and hardly too large, and it opens every file once."""
import random
import sys
from fractions import Fraction

import numpy as np

from corpus import HERE, NAMES, load_checker

CHECKER = load_checker()
Up = CHECKER.Up


def value_of(x):
    return Fraction(x.mantissa) * Fraction(2) ** x.exponent


def random_number(dice):
    kinds = (lambda: Up(dice.getrandbits(dice.choice((1, 5, 53, 100))), dice.randint(-400, 400)),
             lambda: Up.of(dice.random() * 10.0 ** dice.randint(-300, 300)),
             lambda: Up(dice.choice((0, 1, 2, 3))),
             lambda: Up(1 << dice.randint(0, 99), dice.randint(-5, 5)))
    return dice.choice(kinds)()


def check_operations(a, b):
    exact_a, exact_b, slack = value_of(a), value_of(b), 1 + Fraction(1, 2 ** 97)
    assert (a >= b) == (exact_a >= exact_b)
    assert exact_a + exact_b <= value_of(a + b) <= (exact_a + exact_b) * slack
    assert exact_a * exact_b <= value_of(a * b) <= exact_a * exact_b * slack
    assert exact_a <= value_of(a.root()) ** 2 <= exact_a * slack
    if exact_b:
        assert exact_a / exact_b <= value_of(a / b) <= exact_a / exact_b * slack
    if exact_a <= Fraction(CHECKER.LARGEST_FLOAT32):
        above = CHECKER.float32_above(a)
        assert above >= exact_a
        assert above == 0 or Fraction(float(np.nextafter(np.float32(above), np.float32(0)))) < exact_a


def check_opens():
    opened = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    folder = HERE / "bases" / "transformer"
    CHECKER.check_folder(folder / NAMES[0], folder)
    opened = sorted(path for path in opened if path.startswith(str(HERE)))
    assert opened == [str(folder / name) for name in sorted(NAMES)], opened


def main():
    dice = random.Random(1)
    for _ in range(20000):
        check_operations(random_number(dice), random_number(dice))
    check_opens()
    print("check_certificate.py: passed")


if __name__ == "__main__":
    main()
