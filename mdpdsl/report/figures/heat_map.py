"""Maps of a plane as inline SVG for a page: cells as a small PNG, axes and colours as text.

Style sheets alone make the selector of actions work; with scripts, cells also show their values.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib

import numpy as np
import numpy.typing as npt

from mdpdsl.report.figures.colours import ColourRange, colour_ranges, palette
from mdpdsl.report.figures.plane_map import MapSlice, PlaneAxis, PlaneMap
from mdpdsl.report.figures.scales import Scale
from mdpdsl.report.markup import number, text

WIDTH = 400
LEFT, RIGHT, TOP = 60, 8, 6
MOST_TICKS, MOST_LETTERS = 7, 9

#: The first places of the palette: transparent, so that the hatch shows, and grey for no pair.
TRANSPARENT, NO_STATE, FIRST = 0, 1, 2
#: What a cell without pairs is if it has an end, and one whose pairs are known.
END, KNOWN = "an end", "known"
GREY = (0x8A, 0x90, 0x99)
N_COLOURS = 256 - FIRST


def heat_map(plane_map: PlaneMap, name: str, *, has_values: bool) -> str:
    """Draw a map with all its slices; `name` must be unique on the page."""
    ranges = colour_ranges(plane_map)
    figure = plane_map.figure
    panels = [
        f'<div class="panel p{i}">{_panel(plane_map, piece, ranges[i], has_values)}</div>'
        for i, piece in enumerate(plane_map.slices)
    ]
    note = figure.note + (f"; {plane_map.rule}" if plane_map.rule else "")
    return (
        f'<figure class="map" id="{name}"><figcaption><b>{text(figure.title)}</b> '
        f"<span>{text(note)}</span></figcaption>{''.join(panels)}</figure>"
    )


def selector(labels: list[str], name: str) -> str:
    """Return the buttons that choose a slice of all maps of a run.

    They must precede the maps in the same parent, as `selector_style` requires.
    """
    if len(labels) == 1:
        return ""
    inputs = "".join(
        f'<input type="radio" class="choose" name="{name}" id="{name}-{i}"'
        f"{' checked' if i == 0 else ''}>"
        f'<label for="{name}-{i}">{text(label)}</label>'
        for i, label in enumerate(labels)
    )
    return f'<span class="chooses">Actions</span>{inputs}'


def selector_style(n_slices: int) -> str:
    """Return the style that shows the chosen slice, or the first if there are no buttons."""
    chosen = [
        f".choose:nth-of-type({i + 1}):checked~.maps .p{i}{{display:block}}"
        for i in range(n_slices)
    ]
    return "".join([".maps.single .p0{display:block}", *chosen])


def shared_definitions() -> str:
    """Return what all maps of a page share: the hatch of unvisited pairs, and the colours."""
    stops = "".join(
        f'<stop offset="{i / 16:.4f}" stop-color="#{r:02x}{g:02x}{b:02x}"/>'
        for i, (r, g, b) in enumerate(palette(17).tolist())
    )
    return (
        '<svg class="shared" width="0" height="0" aria-hidden="true"><defs>'
        '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/>'
        '<line class="hatch-line" x1="1" x2="1" y1="0" y2="6"/></pattern>'
        f'<linearGradient id="colours">{stops}</linearGradient></defs></svg>'
    )


def _panel(plane_map: PlaneMap, piece: MapSlice, colours: ColourRange, has_values: bool) -> str:
    across, up = plane_map.across, plane_map.up
    width = WIDTH - LEFT - RIGHT
    height = min(width * 0.68, max(up.size * 22.0, 44.0)) if up.size < 10 else width * 0.68
    bottom = TOP + height
    uri = png_uri(_cells(piece, colours, is_visits=plane_map.figure.is_summed), palette(N_COLOURS))
    label = f"{plane_map.figure.title} over {across.name} and {up.name}, {piece.label}"
    data = ""
    if has_values:
        shown = {
            "x": [f"{across.name} = {each}" for each in across.labels],
            "y": [f"{up.name} = {each}" for each in up.labels],
            "v": [
                [_value(*cell) for cell in zip(*rows, strict=True)]
                for rows in zip(
                    piece.values.tolist(),
                    plane_map.has_end.tolist(),
                    piece.has_known.tolist(),
                    strict=True,
                )
            ],
        }
        data = f' data-cells="{text(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))}"'
    total = bottom + 66
    return (
        f'<svg class="heat" viewBox="0 0 {WIDTH} {total:.0f}" role="img" '
        f'aria-label="{text(label)}">'
        f'<rect fill="url(#hatch)" x="{LEFT}" y="{TOP}" width="{width}" height="{height:.1f}"/>'
        f'<image href="{uri}" x="{LEFT}" y="{TOP}" width="{width}" height="{height:.1f}" '
        f'preserveAspectRatio="none"{data}/>'
        f"{_across(across, bottom, width)}{_up(up, height)}{_bar(colours, bottom + 38, width)}"
        f"</svg>{_absent(plane_map, piece)}"
    )


def _cells(piece: MapSlice, colours: ColourRange, *, is_visits: bool) -> np.ndarray:
    """Return the places of cells in the palette, with the top row of the plane first."""
    values = piece.values
    is_known = np.isfinite(values) & ~(is_visits & (values == 0))
    found = np.full(values.shape, TRANSPARENT, np.uint8)
    found[np.isnan(values)] = NO_STATE
    shares = colours.shares(values[is_known])
    found[is_known] = FIRST + np.round(shares * (N_COLOURS - 1)).astype(np.uint8)
    return found[::-1]


def png_uri(cells: npt.NDArray[np.uint8], colours: npt.NDArray[np.uint8]) -> str:
    """Return a PNG as a data URI; `cells` [rows, columns] are places in the palette.

    `colours` [N_COLOURS, 3] are the palette from the place FIRST up.
    """
    height, width = cells.shape
    palette = bytes((0, 0, 0)) + bytes(GREY) + colours.tobytes()
    lines = np.zeros((height, width + 1), np.uint8)  # each line starts with its filter, 0 for none
    lines[:, 1:] = cells
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"tRNS", bytes((0,))),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checked)


def _absent(plane_map: PlaneMap, piece: MapSlice) -> str:
    values, has_end, has_known = piece.values, plane_map.has_end, piece.has_known
    marks = []
    if np.isinf(values).any() or (plane_map.figure.is_summed and bool((values == 0).any())):
        marks.append('<li><span class="key hatched"></span>a pair was never visited</li>')
    is_empty = np.isnan(values)
    absent = [END] if is_empty[has_end & ~has_known].any() else []
    absent += [KNOWN] if is_empty[has_known].any() else []
    absent += ["no such pair"] if is_empty[~has_end & ~has_known].any() else []
    if absent:
        marks.append(f'<li><span class="key none"></span>{" or ".join(absent)}</li>')
    return f'<ul class="legend">{"".join(marks)}</ul>' if marks else ""


def _value(value: float, has_end: bool, has_known: bool) -> str:
    if math.isnan(value):
        return KNOWN if has_known else END if has_end else ""
    return "never visited" if math.isinf(value) else number(value)


def _across(axis: PlaneAxis, bottom: float, width: float) -> str:
    parts = []
    for share, label in _ticks(axis):
        at = LEFT + share * width
        parts.append(
            f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" '
            f'y2="{bottom + 4:.1f}"/><text class="tick mid" x="{at:.1f}" '
            f'y="{bottom + 15:.1f}">{text(label)}</text>'
        )
    middle = LEFT + width / 2
    parts.append(
        f'<text class="name mid" x="{middle:.0f}" y="{bottom + 30:.1f}">{text(axis.name)}</text>'
    )
    return "".join(parts)


def _up(axis: PlaneAxis, height: float) -> str:
    parts = []
    for share, label in _ticks(axis):
        at = TOP + (1 - share) * height
        parts.append(
            f'<line class="axis" x1="{LEFT - 4}" x2="{LEFT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick end" x="{LEFT - 7}" y="{at:.1f}" dy=".35em">{text(label)}</text>'
        )
    middle = TOP + height / 2
    parts.append(
        f'<text class="name mid" transform="translate(11 {middle:.0f}) rotate(-90)">'
        f"{text(axis.name)}</text>"
    )
    return "".join(parts)


def _ticks(axis: PlaneAxis) -> list[tuple[float, str]]:
    """Return the ticks of an axis: their positions as shares of its length, and their texts."""
    if axis.edges is not None:
        low, high = float(axis.edges[0]), float(axis.edges[-1])
        ticks = Scale(low, high, 0.0, 1.0, False).ticks(MOST_TICKS)
        # Cells may have different widths, but all are drawn with the same width.
        places = np.interp([v for v, _ in ticks], axis.edges, np.linspace(0, 1, axis.size + 1))
        return [(float(p), label) for p, (_, label) in zip(places, ticks, strict=True)]
    step = -(-axis.size // (MOST_TICKS + 1))
    return [((i + 0.5) / axis.size, _short(axis.labels[i])) for i in range(0, axis.size, step)]


def _short(label: str) -> str:
    label = label.split(" … ")[0]
    return label if len(label) <= MOST_LETTERS else label[: MOST_LETTERS - 1] + "…"


def _bar(colours: ColourRange, y: float, width: float) -> str:
    """Draw the colours with their values."""
    parts = [
        f'<rect class="bar" fill="url(#colours)" x="{LEFT}" y="{y:.1f}" width="{width}" '
        'height="8"/>'
    ]
    scale = Scale(colours.low, colours.high, LEFT, LEFT + width, colours.is_log)
    for value, label in scale.ticks(5):
        at = scale.at(value)
        if LEFT - 1 <= at <= LEFT + width + 1:
            parts.append(f'<text class="tick mid" x="{at:.1f}" y="{y + 20:.1f}">{label}</text>')
    return "".join(parts)
