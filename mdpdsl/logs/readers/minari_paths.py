"""Where Minari datasets are: found by the id of a local one, or by a path.

A dataset is a folder `ID/data` with a `metadata.json`; its episodes are in `main_data.hdf5`, or
each in a numbered folder. Local datasets are below `MINARI_DATASETS_PATH`, or `~/.minari/datasets`.
Nothing is ever downloaded.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

#: Prefix of an id, which shows that it is not a path.
PREFIX = "minari:"
METADATA_NAME = "metadata.json"
HDF5_NAME = "main_data.hdf5"
#: A file that Minari puts beside datasets; not a log, despite its ending.
NAMESPACE_NAME = "namespace_metadata.json"
#: Levels of folders below the root that are searched for local ids.
_DEEPEST = 6


def is_id(text: str) -> bool:
    """Return whether a text is the id of a dataset."""
    return text.startswith(PREFIX)


def dataset_of_id(text: str) -> Path:
    """Return the data folder of an id; the text itself as a path if there is none.

    Opening that path then reports what is wrong.
    """
    dataset = text.removeprefix(PREFIX).strip("/")
    folder = datasets_root() / dataset / "data"
    is_inside = dataset != "" and ".." not in Path(dataset).parts
    return folder if is_inside and folder.is_dir() else Path(text)


def dataset_at(path: Path) -> Path | None:
    """Return the data folder of a path, which is that folder, its parent or a file in it."""
    if path.is_file():
        is_part = path.name in (METADATA_NAME, HDF5_NAME)
        return path.parent if is_part and is_data_folder(path.parent) else None
    if is_data_folder(path):
        return path
    return path / "data" if is_data_folder(path / "data") else None


def is_data_folder(path: Path) -> bool:
    """Return whether a folder holds a dataset, even a broken one."""
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
