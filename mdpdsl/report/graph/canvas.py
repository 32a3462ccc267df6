"""A canvas for graphs: discs, cells, arrows and text, turned into a matplotlib figure.

All lengths are in points (1/72 inch), also those of text, so that everything fits when printed.
Arrows of the same colour and width become one path, which keeps an SVG of a thousand arrows small.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.space import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

FONT = "DejaVu Sans"
INK = "#222222"
QUIET = "#6b6b6b"
MARGIN = 14.0

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class Text:
    """A line of text, centred on a point unless `anchor` says left or right."""

    at: Point
    text: str
    size: float = 8.0
    colour: str = INK
    anchor: str = "center"
    is_bold: bool = False
    has_ground: bool = False

    @property
    def box(self) -> Box:
        """The rectangle that the text covers."""
        width, height = text_width(self.text, self.size, self.is_bold), self.size * 1.15
        left = self.at[0] - {"center": width / 2, "left": 0.0, "right": width}[self.anchor]
        return left, self.at[1] - height / 2, left + width, self.at[1] + height / 2


@dataclass(frozen=True)
class Curve:
    """A cubic curve with an arrow head at its end."""

    points: tuple[Point, Point, Point, Point]
    colour: str
    width: float
    head: float

    def at(self, share: float) -> Point:
        """Return the point at this share of the curve."""
        weights = ((1 - share) ** 3, 3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share))
        p = self.points
        return (
            weights[0] * p[0][0] + weights[1] * p[1][0] + weights[2] * p[2][0] + share**3 * p[3][0],
            weights[0] * p[0][1] + weights[1] * p[1][1] + weights[2] * p[2][1] + share**3 * p[3][1],
        )


@dataclass(frozen=True)
class Disc:
    """A filled circle, with a double border if nothing leaves it; of width 0, a plain dot."""

    at: Point
    radius: float
    fill: str = "white"
    edge: str = INK
    is_double: bool = False
    width: float = 1.1


@dataclass(frozen=True)
class Cell:
    """A filled rectangle."""

    box: Box
    fill: str
    edge: str = "#d5d5d5"
    width: float = 0.6


@dataclass
class Canvas:
    """Everything drawn so far; the order from below is cells, curves, discs, text."""

    cells: list[Cell] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    discs: list[Disc] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def bounds(self) -> Box:
        """Return the rectangle around everything."""
        boxes = [t.box for t in self.texts] + [c.box for c in self.cells]
        boxes += [_around(d.at, d.radius + 2) for d in self.discs]
        boxes += [_around(c.at(share), 3) for c in self.curves for share in np.linspace(0, 1, 9)]
        if not boxes:
            return 0.0, 0.0, 1.0, 1.0
        lefts, bottoms, rights, tops = zip(*boxes, strict=True)
        return min(lefts), min(bottoms), max(rights), max(tops)

    def write_on_curve(self, curve: Curve, text: str, size: float) -> None:
        """Write a text on a curve, at the place where it covers the least of what is there."""
        best, least = None, math.inf
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8):
            label = Text(curve.at(share), text, size, curve.colour, has_ground=True)
            covered = self._covered_by(_grow(label.box, 1.2), curve) + 2 * abs(share - 0.5)
            if covered < least:
                best, least = label, covered
        assert best is not None
        self.texts.append(best)

    def write_outside_loop(self, curve: Curve, angle: float, text: str, size: float) -> None:
        """Write a text just beyond the far end of a loop that leaves its disc at `angle`."""
        x, y = curve.at(0.5)
        half = text_width(text, size) / 2, 0.55 * size
        reach = 2.5 + half[0] * abs(math.cos(angle)) + half[1] * abs(math.sin(angle))
        at = (x + reach * math.cos(angle), y + reach * math.sin(angle))
        self.texts.append(Text(at, text, size, curve.colour))

    def has_text_on_text(self) -> bool:
        """Return whether two texts overlap."""
        boxes = np.array([_grow(text.box, -0.5) for text in self.texts]).reshape(-1, 4)
        low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        return bool(np.triu((high > low).all(axis=2), 1).any())

    def _covered_by(self, box: Box, own: Curve) -> float:
        """Return the weight of what a box would cover: text and discs count more than lines."""
        covered = 1000.0 * sum(_overlap(box, text.box) > 0 for text in self.texts)
        covered += 300.0 * sum(_overlap(box, _around(d.at, d.radius)) > 0 for d in self.discs)
        for curve in self.curves:
            if curve is not own:
                covered += sum(
                    _is_inside(curve.at(share), box) for share in np.linspace(0.05, 0.95, 19)
                )
        return covered

    def figure(self) -> Figure:
        """Return the drawing as a figure that just fits it, without changing global state."""
        from matplotlib.figure import Figure

        left, bottom, right, top = _grow(self.bounds(), MARGIN)
        figure = Figure(figsize=((right - left) / 72, (top - bottom) / 72), facecolor="white")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        self._paint_cells(axes)
        self._paint_curves(axes)
        self._paint_discs(axes)
        for text in self.texts:
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            axes.text(
                *text.at,
                text.text,
                fontsize=text.size,
                color=text.colour,
                ha=text.anchor,
                va="center_baseline",
                family=FONT,
                weight="bold" if text.is_bold else "normal",
                bbox=ground if text.has_ground else None,
                zorder=6,
                parse_math=False,
            )
        return figure

    def _paint_cells(self, axes: Axes) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        alike: dict[tuple[str, str, float], list[Path]] = defaultdict(list)
        for cell in self.cells:
            left, bottom, right, top = cell.box
            corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]
            alike[cell.fill, cell.edge, cell.width].append(Path(corners, closed=True))
        for (fill, edge, width), paths in alike.items():
            look = {"facecolor": fill, "edgecolor": edge, "linewidth": width}
            axes.add_patch(PathPatch(Path.make_compound_path(*paths), zorder=1, **look))

    def _paint_curves(self, axes: Axes) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        alike: dict[tuple[str, float], list[Curve]] = defaultdict(list)
        for curve in self.curves:
            alike[curve.colour, curve.width].append(curve)
        for (colour, width), curves in alike.items():
            shafts = Path.make_compound_path(*(_shaft(c) for c in curves))
            line = {"edgecolor": colour, "facecolor": "none", "linewidth": width}
            axes.add_patch(PathPatch(shafts, capstyle="butt", zorder=2, **line))
            heads = Path.make_compound_path(*(Path(_head(c), closed=True) for c in curves))
            axes.add_patch(PathPatch(heads, facecolor=colour, edgecolor="none", zorder=3))

    def _paint_discs(self, axes: Axes) -> None:
        from matplotlib.patches import Circle

        dots: dict[tuple[float, str], list[Point]] = defaultdict(list)
        for disc in self.discs:
            if disc.width == 0:
                dots[disc.radius, disc.fill].append(disc.at)
                continue
            style = {"edgecolor": disc.edge, "linewidth": disc.width}
            axes.add_patch(Circle(disc.at, disc.radius, facecolor=disc.fill, zorder=4, **style))
            if disc.is_double:
                inner = disc.radius - max(2.2, 0.12 * disc.radius)
                ring = {"edgecolor": disc.edge, "linewidth": 0.8}
                axes.add_patch(Circle(disc.at, inner, facecolor="none", zorder=4, **ring))
        for (radius, fill), places in dots.items():
            x, y = zip(*places, strict=True)
            axes.plot(
                x,
                y,
                linestyle="none",
                marker="o",
                markersize=2 * radius,
                markeredgewidth=0,
                color=fill,
                zorder=4,
            )


def text_width(text: str, size: float, is_bold: bool = False) -> float:
    """Return the width of a line of text; bold letters are about an eighth wider."""
    return sum(map(_letter_width, text)) * size * (1.13 if is_bold else 1.0)


@cache
def _letter_width(letter: str) -> float:
    """Return the advance of a letter of size 1; letters that the font lacks are square."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family=FONT)))
    if font.get_char_index(ord(letter)) == 0:
        return 1.0
    font.set_size(100, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance) / 65536 / 100


def arrow(
    start: Point,
    end: Point,
    bend: float,
    gaps: tuple[float, float],
    colour: str,
    width: float = 1.2,
    head: float = 6.0,
) -> Curve:
    """Return an arrow that bends by `bend` points to its left, with gaps at both ends."""
    p, q = np.array(start), np.array(end)
    across = np.array([p[1] - q[1], q[0] - p[0]]) / max(float(np.hypot(*(q - p))), 1e-9)
    # A cubic whose handles are at 4/3 of the bend passes through the bend at its midpoint.
    handles = [
        p + (q - p) * 0.28 + across * bend * 4 / 3,
        p + (q - p) * 0.72 + across * bend * 4 / 3,
    ]
    p = p + gaps[0] * _unit(handles[0] - p)
    q = q + gaps[1] * _unit(handles[1] - q)
    return Curve((_pair(p), _pair(handles[0]), _pair(handles[1]), _pair(q)), colour, width, head)


def loop(at: Point, radius: float, angle: float, colour: str, width: float = 1.2) -> Curve:
    """Return an arrow from a disc to itself, on the side of `angle`."""
    half, spread, reach = math.radians(19), math.radians(33), radius + 25
    turn = [angle - half, angle - spread, angle + spread, angle + half]
    lengths = [radius, reach, reach, radius + 0.5]
    points = [
        (at[0] + length * math.cos(a), at[1] + length * math.sin(a))
        for a, length in zip(turn, lengths, strict=True)
    ]
    return Curve((points[0], points[1], points[2], points[3]), colour, width, 6.0)


def _shaft(curve: Curve) -> Path:
    """Return the line of an arrow, which stops inside the head so that the tip is sharp."""
    from matplotlib.path import Path

    p = np.array(curve.points)
    end = _pair(p[3] - 0.7 * curve.head * _unit(p[3] - p[2]))
    across = np.array([p[0][1] - p[3][1], p[3][0] - p[0][0]])
    if np.abs((p[1:3] - p[0]) @ across).max() < 1e-6:
        return Path([curve.points[0], end])
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    return Path([*curve.points[:3], end], codes)


def _head(curve: Curve) -> list[Point]:
    p = np.array(curve.points)
    along = _unit(p[3] - np.array(curve.at(0.86)))
    across = np.array([-along[1], along[0]])
    base = p[3] - curve.head * along
    wings = [base + 0.38 * curve.head * across, base - 0.38 * curve.head * across]
    return [_pair(wings[0]), _pair(p[3]), _pair(wings[1]), _pair(wings[0])]


def _unit(vector: FloatArray) -> FloatArray:
    return vector / max(float(np.hypot(*vector)), 1e-9)


def _pair(vector: FloatArray) -> Point:
    return float(vector[0]), float(vector[1])


def _around(point: Point, radius: float) -> Box:
    return point[0] - radius, point[1] - radius, point[0] + radius, point[1] + radius


def _grow(box: Box, by: float) -> Box:
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def _is_inside(point: Point, box: Box) -> bool:
    return box[0] < point[0] < box[2] and box[1] < point[1] < box[3]
