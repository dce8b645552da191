#!/usr/bin/env python3
"""What soft cap does to a singular value, for steps that could reach so far above the cap, as a table: x ↦ y = x − αx³, y + αy³, with
the smallest α that brings the reach back to 1. Usage: experiments/shakespeare/soft_cap.py > experiments/shakespeare/soft_cap.csv"""


def strength(reach):
    """By bisection: u = α·reach² solves u²(3 − 3u + u²) = 1 − 1/reach."""
    low, high = 0.0, 1.0 / 3.0
    for _ in range(60):
        u = (low + high) / 2
        low, high = (u, high) if u * u * (3 - 3 * u + u * u) < (reach - 1) / reach else (low, u)
    return high / reach**2


def main():
    print("curve,before,after")
    for reach in (1.02, 1.1, 1.2, 1.3):
        alpha = strength(reach)
        for x in (i / 100 for i in range(131)):
            if x <= reach:
                y = x - alpha * x**3
                print(f'"norm up to {reach} before, α = {alpha:.3f}",{x:g},{y + alpha * y**3:.6g}')
    for x in (0, 1.3):
        print(f"unchanged,{x:g},{x:g}")


if __name__ == "__main__":
    main()
