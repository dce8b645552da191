#!/usr/bin/env python3
"""A text to learn from: words.py LINES, the same each time."""
import random
import sys

random.seed(1)
words = "the whale and captain of sea ship white old harpoon never in a boat".split()
for _ in range(int(sys.argv[1])):
    print(" ".join(random.choice(words) for _ in range(5)))
