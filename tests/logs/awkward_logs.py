"""All awkward logs: what people have, and what goes wrong with it."""

from __future__ import annotations

from tests.logs.awkward_files import FILES
from tests.logs.awkward_text import TEXTS
from tests.logs.awkward_times import TIMES
from tests.logs.awkward_values import ALL_VALUES

CASES = [*TIMES, *ALL_VALUES, *TEXTS, *FILES]
