#!/usr/bin/env python3
"""The pictures of README.md and docs/concepts.md: draw.py writes them beside itself.

They are sketches, not measurements; what is measured stands in docs/results/."""
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
BLUE, ORANGE, GREEN, GREY, INK, PAPER = "#0072b2", "#d55e00", "#009e73", "#8a8a8a", "#222222", "#ffffff"


def picture(name, width, height, title, *parts):
    """Writes a file with white paper behind it, so that it can be read on a dark page too."""
    text = "\n".join(parts)
    (HERE / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="14" fill="{INK}">\n<title>{title}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>\n{text}\n</svg>\n')


def write(x, y, text, anchor="middle", size=14, colour=INK, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" '
            f'font-weight="{weight}">{text}</text>')


def line(x1, y1, x2, y2, colour=INK, width=1.5, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def arrow(x1, y1, x2, y2, colour=INK, width=1.5):
    angle = math.atan2(y2 - y1, x2 - x1)
    head = [(x2 - 9 * math.cos(angle + turn), y2 - 9 * math.sin(angle + turn)) for turn in (0.4, -0.4)]
    tip = "".join(f"L{x:.1f} {y:.1f}" for x, y in head)
    return line(x1, y1, x2, y2, colour, width) + f'<path d="M{x2:g} {y2:g}{tip}Z" fill="{colour}"/>'


def circle(x, y, radius, fill="none", stroke=INK, dash="", opacity=1):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" fill-opacity="{opacity}" '
            f'stroke="{stroke}" stroke-width="1.5"{dashes}/>')


def box(x, y, width, height, text, colour=BLUE, size=14):
    lines = text.split("\n")
    first = y + height / 2 + 5 - 9 * (len(lines) - 1)
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}" '
            f'fill-opacity="0.12" stroke="{colour}" stroke-width="1.5"/>'
            + "".join(write(x + width / 2, first + 18 * i, part, size=size) for i, part in enumerate(lines)))


def blob(x, y, radii, colour):
    """A closed curve around (x, y) through points at these distances, evenly turned."""
    points = [(x + r * math.cos(2 * math.pi * i / len(radii)), y + r * math.sin(2 * math.pi * i / len(radii)))
              for i, r in enumerate(radii)]
    middle = lambda a, b: ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    start = middle(points[-1], points[0])
    curve = "".join("Q{:.1f} {:.1f} {:.1f} {:.1f}".format(*p, *middle(p, points[(i + 1) % len(points)]))
                    for i, p in enumerate(points))
    return f'<path d="M{start[0]:.1f} {start[1]:.1f}{curve}Z" fill="{colour}" fill-opacity="0.25" stroke="{colour}"/>'


def promise():
    """README: a ball of inputs, the network, and the ball that its outputs cannot leave."""
    picture(
        "promise.svg", 760, 250, "Inputs within ε give outputs within L times ε",
        write(125, 30, "inputs within ε of x", weight="bold"),
        circle(120, 128, 40, BLUE, BLUE, opacity=0.2), circle(120, 128, 3, INK),
        arrow(120, 128, 120 + 40 * math.cos(-0.6), 128 + 40 * math.sin(-0.6), BLUE),
        write(132, 102, "ε", anchor="end", colour=BLUE, size=16), write(112, 144, "x", anchor="end"),
        arrow(185, 128, 255, 128), box(260, 88, 150, 80, "network with a\ncertified bound L"),
        arrow(415, 128, 500, 128),
        write(600, 30, "outputs within L·ε of f(x)", weight="bold"),
        circle(600, 128, 82, "none", ORANGE, dash="6 4"),
        blob(600, 128, [60, 40, 70, 52, 33, 64, 76, 48, 55, 70], BLUE), circle(600, 128, 3, INK),
        arrow(600, 128, 600 + 82 * math.cos(-0.6), 128 + 82 * math.sin(-0.6), ORANGE),
        write(632, 96, "L·ε", anchor="end", colour=ORANGE, size=16), write(594, 146, "f(x)", anchor="end"),
        write(380, 236, "Whatever moves an input by ε, the logits cannot leave the dashed ball.", colour=GREY))


def norm():
    """Concepts: the norm of a sequence is the largest RMS over its tokens."""
    values, x = [0.6, 0.8, 0.4, 1.0, 0.7], 70
    parts = []
    for i, value in enumerate(values):
        largest = value == max(values)
        parts.append(f'<rect x="{x + 90 * i}" y="{150 - 90 * value:g}" width="46" height="{90 * value:g}" '
                     f'fill="{ORANGE if largest else BLUE}" fill-opacity="{0.8 if largest else 0.35}"/>')
        parts.append(write(x + 23 + 90 * i, 170, f"token {i + 1}"))
        parts.append(write(x + 23 + 90 * i, 143 - 90 * value, f"{value:.1f}"))
    picture("norm.svg", 620, 230, "The norm of a sequence is the largest RMS over its tokens", *parts,
            line(50, 60, 560, 60, ORANGE, 1.5, "6 4"), write(566, 56, "‖x‖ = 1.0", anchor="end", colour=ORANGE),
            write(310, 30, "RMS of each token’s vector", weight="bold"),
            write(310, 208, "RMS = √(mean of squares); the largest counts, so a bound does not grow with length",
                  colour=GREY))


def layers():
    """Concepts: bounds multiply through layers and average in a residual."""
    x = [20, 165, 310, 455, 600]
    names = ["embedding", "block 1", "block 2", "head", ""]
    parts = [box(x[i], 90, 105, 56, names[i] + f"\n≤ {b}", BLUE if i < 3 else ORANGE)
             for i, b in enumerate(["1", "1", "1", "20"])]
    parts += [arrow(x[i] + 108, 118, x[i + 1] - 4, 118) for i in range(4)]
    parts += [write(x[i] + 125, 80, text, colour=GREY, size=13)
              for i, text in enumerate(["ε", "ε", "ε", "20·ε"])]
    picture("layers.svg", 680, 200, "The network’s bound is the product of its layers’ bounds", *parts,
            write(640, 123, "logits"),
            write(340, 40, "How much each layer can stretch a change", weight="bold"),
            write(340, 180, "1 · 1 · 1 · 20 = 20: the whole network’s bound", colour=GREY))


def cap():
    """Concepts: singular values before a step, after it, and after the constraint."""
    before = [1.0, 0.97, 0.8, 0.55, 0.3]
    steps = [("weight", before), ("after the optimizer’s step", [1.18, 1.1, 0.84, 0.66, 0.37]),
             ("after the constraint", [1.0, 1.0, 0.82, 0.65, 0.37])]
    parts = []
    for panel, (title, values) in enumerate(steps):
        left = 30 + 225 * panel
        parts.append(write(left + 85, 34, title, weight="bold"))
        for i, value in enumerate(values):
            over = value > 1
            parts.append(f'<rect x="{left + 34 * i}" y="{170 - 95 * value:g}" width="24" height="{95 * value:g}" '
                         f'fill="{ORANGE if over else BLUE}" fill-opacity="{0.8 if over else 0.4}"/>')
        parts.append(line(left - 8, 75, left + 170, 75, ORANGE, 1.5, "6 4"))
        if panel < 2:
            parts.append(arrow(left + 176, 130, left + 212, 130))
    picture("cap.svg", 690, 220, "A cap holds a weight’s singular values", *parts,
            write(8, 72, "cap", anchor="start", colour=ORANGE, size=13),
            write(345, 205, "singular values of one weight; then a proof that the largest is within the cap",
                  colour=GREY))


def certificate():
    """Concepts: what a certificate is made from, and who checks it."""
    picture(
        "certificate.svg", 720, 230, "A certificate is checked from the weights alone, by two programs",
        box(20, 40, 150, 56, "model.safetensors\nweights", GREY), box(20, 130, 150, 56, "config.json\narchitecture", GREY),
        box(250, 70, 180, 86, "certificate.json\nnorm of every weight,\nbound after every layer"),
        arrow(174, 70, 246, 100, GREY), arrow(174, 158, 246, 128, GREY),
        box(510, 30, 190, 60, "bridle check\nC++, LAPACK", GREEN),
        box(510, 134, 190, 60, "check_certificate.py\nPython, NumPy", GREEN),
        arrow(434, 100, 506, 66), arrow(434, 126, 506, 160),
        write(360, 218, "Both prove every norm again and walk the bound again; they share no code.", colour=GREY))


for draw in (promise, norm, layers, cap, certificate):
    draw()
