"""Line charts as SVG, from the standard library alone: numbered axes, a legend, nothing that moves."""
import html
import math

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000", "#7b3294"]
WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 46, 56


def nice_ticks(low, high, count=6):
    """About `count` round numbers that lie in [low, high]."""
    raw = (high - low) / count
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value):
    return f"{value:.10g}"


class Chart:
    def __init__(self, title, x_label, y_label, log_x=False, legend="top"):
        self.title, self.x_label, self.y_label, self.log_x, self.legend = title, x_label, y_label, log_x, legend
        self.series, self.rules, self.limits = [], [], {}

    def add(self, name, points, line=True, markers=True, dashed=False, colour=None):
        """`points`: (x, y) or (x, y, low, high), the last two for a bar of the spread."""
        points = [p for p in points if all(math.isfinite(v) for v in p)]
        colour = colour or COLOURS[len(self.series) % len(COLOURS)]
        self.series.append((name, points, line, markers, dashed, colour))

    def rule(self, y, name):
        self.rules.append((y, name))

    def limit(self, axis, low, high):
        self.limits[axis] = (low, high)

    def _range(self, axis):
        if axis in self.limits:
            return self.limits[axis]
        values = [self._x(p[0]) if axis == "x" else v for s in self.series for p in s[1] for v in (p[:1] if axis == "x" else p[1:])]
        if axis == "y":
            values += [y for y, _ in self.rules]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        margin = 0.04 * (high - low) or 0.5
        return low - margin, high + margin

    def _x(self, value):
        return math.log10(value) if self.log_x else value

    def svg(self):
        (x0, x1), (y0, y1) = self._range("x"), self._range("y")
        inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def px(value):
            return LEFT + (self._x(value) - x0) / (x1 - x0) * inner_width

        def py(value):
            return TOP + (y1 - value) / (y1 - y0) * inner_height

        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
               f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
               f'<text x="{LEFT}" y="24" font-size="16" font-weight="bold">{html.escape(self.title)}</text>']
        if self.log_x:
            ticks = [(10.0 ** e * m, m == 1) for e in range(math.floor(x0), math.ceil(x1) + 1) for m in (1, 2, 5)]
            ticks = [(v, major) for v, major in ticks if x0 <= math.log10(v) <= x1]
            if sum(major for _, major in ticks) >= 4:
                ticks = [(v, major) for v, major in ticks if major]
            x_ticks = [v for v, _ in ticks]
            if len(x_ticks) > 12:
                x_ticks = [10.0 ** e for e in nice_ticks(x0, x1) if e == round(e)]
        else:
            x_ticks = nice_ticks(x0, x1)
        for v in x_ticks:
            text = number(v) if not self.log_x or v < 1e6 else f"1e{round(math.log10(v))}"
            out.append(f'<line x1="{px(v):.1f}" y1="{TOP}" x2="{px(v):.1f}" y2="{TOP + inner_height}" stroke="#e5e5e5"/>'
                       f'<text x="{px(v):.1f}" y="{TOP + inner_height + 18}" text-anchor="middle">{text}</text>')
        for v in nice_ticks(y0, y1):
            out.append(f'<line x1="{LEFT}" y1="{py(v):.1f}" x2="{LEFT + inner_width}" y2="{py(v):.1f}" stroke="#e5e5e5"/>'
                       f'<text x="{LEFT - 8}" y="{py(v) + 4:.1f}" text-anchor="end">{number(v)}</text>')
        out.append(f'<rect x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}" fill="none" stroke="#444"/>')
        out.append(f'<clipPath id="c"><rect x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}"/></clipPath><g clip-path="url(#c)">')
        for y, name in self.rules:
            out.append(f'<line x1="{LEFT}" y1="{py(y):.1f}" x2="{LEFT + inner_width}" y2="{py(y):.1f}" stroke="#444" stroke-dasharray="2 4"/>'
                       f'<text x="{LEFT + inner_width - 8}" y="{py(y) - 5:.1f}" text-anchor="end" fill="#444">{html.escape(name)}</text>')
        for _, points, line, markers, dashed, colour in self.series:
            if line and len(points) > 1:
                path = " ".join(f"{px(p[0]):.1f},{py(p[1]):.1f}" for p in points)
                dash = ' stroke-dasharray="6 4"' if dashed else ""
                out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
            for p in points:
                if len(p) == 4:
                    out.append(f'<line x1="{px(p[0]):.1f}" y1="{py(p[2]):.1f}" x2="{px(p[0]):.1f}" y2="{py(p[3]):.1f}" stroke="{colour}"/>')
                if markers:
                    out.append(f'<circle cx="{px(p[0]):.1f}" cy="{py(p[1]):.1f}" r="3.5" fill="{colour}"/>')
        out.append("</g>")
        named = [s for s in self.series if s[0]]
        for i, (name, _, _, _, dashed, colour) in enumerate(named):
            dash = ' stroke-dasharray="6 4"' if dashed else ""
            y = TOP + inner_height - 18 * (len(named) - i) if "bottom" in self.legend else TOP + 18 + 18 * i
            left = "left" in self.legend
            x = LEFT + 32 if left else LEFT + inner_width - 8
            text, anchor = (x + 6, "start") if left else (x - 30, "end")
            out.append(f'<text x="{text}" y="{y + 4}" text-anchor="{anchor}">{html.escape(name)}</text>'
                       f'<line x1="{x - 24}" y1="{y}" x2="{x}" y2="{y}" stroke="{colour}" stroke-width="3"{dash}/>')
        out.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 14}" text-anchor="middle">{html.escape(self.x_label)}</text>')
        out.append(f'<text transform="translate(18 {TOP + inner_height / 2}) rotate(-90)" text-anchor="middle">{html.escape(self.y_label)}</text>')
        out.append("</svg>")
        return "\n".join(out) + "\n"

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg())
