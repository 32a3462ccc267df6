"""How the texts of a log are read: dates, decimal commas, encodings, and values out of range."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime

from mdpdsl.diagnostics import SettingsError


@dataclass(frozen=True)
class ReadingOptions:
    """What a log does not say about itself."""

    dayfirst: bool = False  # 03/04/2026 is 3 April
    time_format: str | None = None  # of texts in the column of times, as in datetime.strptime
    decimal: str = "."  # or a comma
    encoding: str | None = None  # of text files; None: UTF-8, or what the first bytes say
    clip_anyway: bool = False  # read a variable even if most of its values are out of range

    def __post_init__(self) -> None:
        """Raise SettingsError for an option that cannot be."""
        if self.decimal not in (".", ","):
            raise SettingsError(f"`decimal=` is a point or a comma, not `{self.decimal}`")
        if self.time_format is not None:
            _require_format(self.time_format)
            if self.dayfirst:
                raise SettingsError(
                    "`time_format=` says already where the day is; leave out `dayfirst=`"
                )
        if self.encoding is not None:
            _require_encoding(self.encoding)

    @property
    def changed(self) -> dict[str, bool | str]:
        """The options that are not the usual ones."""
        usual = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


#: What is assumed of a log about which nothing is said.
USUAL = ReadingOptions()


def split_options(
    settings: Mapping[str, object],
) -> tuple[ReadingOptions, dict[str, object]]:
    """Return the options among some settings, and the other settings; None is not an option."""
    names = {field.name for field in fields(ReadingOptions)}
    given = {name: value for name, value in settings.items() if name in names}
    options = ReadingOptions(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
    return options, {name: value for name, value in settings.items() if name not in names}


def _require_format(text: str) -> None:
    try:
        written = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC).strftime(text)
        datetime.strptime(written, text)
        is_format = written != text
    except (ValueError, re.error):  # a directive that does not exist, or twice the same one
        is_format = False
    if not is_format:
        raise SettingsError(
            f"`time_format=` cannot be `{text}`; write it as in %d.%m.%Y %H:%M:%S, with %f for "
            "fractions of a second and %z for the zone"
        )


def _require_encoding(name: str) -> None:
    try:
        codecs.getincrementaldecoder(name)
        b"".decode(name)
    except (LookupError, ValueError):  # unknown, or no encoding of text
        raise SettingsError(
            f"there is no `encoding=` named {name}; use one such as utf-8, utf-16, latin-1 or "
            "cp1252"
        ) from None
