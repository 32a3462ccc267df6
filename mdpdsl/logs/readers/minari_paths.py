"""Where Minari datasets are: by id among the local ones, or by a path to one of their folders.

A dataset is a folder `ID/data` with a `metadata.json`, and its episodes in `main_data.hdf5` or in a
numbered folder each. The local ones lie below `MINARI_DATASETS_PATH`, or `~/.minari/datasets`.
Nothing is ever downloaded.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

#: What an id has in front, to be no path.
PREFIX = "minari:"
METADATA_NAME = "metadata.json"
HDF5_NAME = "main_data.hdf5"
#: What Minari puts beside datasets; no log, though its ending says so.
NAMESPACE_NAME = "namespace_metadata.json"
#: Folders below the root that are looked at for local ids.
_DEEPEST = 6


def is_id(text: str) -> bool:
    """Tell whether a text names a dataset by its id."""
    return text.startswith(PREFIX)


def dataset_of_id(text: str) -> Path:
    """Return the data folder of an id; the text itself, as a path to nothing, where there is none.

    That leaves it to opening to say what is wrong with it.
    """
    dataset = text.removeprefix(PREFIX).strip("/")
    folder = datasets_root() / dataset / "data"
    is_inside = dataset != "" and ".." not in Path(dataset).parts
    return folder if is_inside and folder.is_dir() else Path(text)


def dataset_at(path: Path) -> Path | None:
    """Return the data folder that a path names: itself, a file of it, or what it lies in."""
    if path.is_file():
        is_part = path.name in (METADATA_NAME, HDF5_NAME)
        return path.parent if is_part and is_data_folder(path.parent) else None
    if is_data_folder(path):
        return path
    return path / "data" if is_data_folder(path / "data") else None


def is_data_folder(path: Path) -> bool:
    """Tell whether a folder holds a dataset, be it broken."""
    if (path / HDF5_NAME).is_file():
        return True
    try:
        metadata = json.loads((path / METADATA_NAME).read_bytes())
    except OSError:
        return False
    except ValueError:
        return (path / "0").is_dir()
    return isinstance(metadata, dict) and {"data_format", "total_episodes"} <= metadata.keys()


def datasets_root() -> Path:
    """Return the folder of the local datasets, which need not exist."""
    given = os.environ.get("MINARI_DATASETS_PATH")
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def local_ids() -> list[str]:
    """Return the ids of the local datasets, sorted."""
    root = datasets_root()
    found = []
    folders = [root]
    for _ in range(_DEEPEST):
        inside = [p for f in folders if f.is_dir() for p in f.iterdir() if p.is_dir()]
        folders = [p for p in inside if not is_data_folder(p / "data")]
        found += [p.relative_to(root).as_posix() for p in inside if is_data_folder(p / "data")]
    return sorted(found)
