"""Small pictures with a palette as PNG, for cells of maps."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

#: The first colours of the palette: what shows the ground, and what is no state.
TRANSPARENT, NO_STATE, FIRST = 0, 1, 2
GREY = (0x8A, 0x90, 0x99)
N_COLOURS = 256 - FIRST


def png_uri(cells: npt.NDArray[np.uint8], colours: npt.NDArray[np.uint8]) -> str:
    """Return a picture as a data URI; `cells` [rows, columns] are places in the palette.

    `colours` [N_COLOURS, 3] are those from FIRST on.
    """
    height, width = cells.shape
    palette = bytes((0, 0, 0)) + bytes(GREY) + colours.tobytes()
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with its filter: none
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
