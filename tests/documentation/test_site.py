"""The site builds without a warning and needs nothing from the network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mdpdsl
from tests.documentation.pages import DOCS

CONFIGURATION = DOCS / "site" / "mkdocs.yml"
TIMEOUT = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        [*command, "--config-file", str(CONFIGURATION)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert len(pages) > 10
    assert [page for page in pages if not (site / page).exists()] == []
    assert 'id="e501"' in (site / "diagnostics.html").read_text("utf-8")


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]*\shref=\"([^\"]*)\"", text)
        assert loaded
        assert [link for link in loaded if re.match(r"(https?:)?//", link)] == [], path.name


def test_a_link_to_nowhere_would_stop_the_build(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("[nowhere](nowhere.md)\n")
    text = CONFIGURATION.read_text("utf-8").replace("docs_dir: ..", "docs_dir: pages")
    text = text.replace("site_dir: ../../build/site", "site_dir: out")
    (tmp_path / "mkdocs.yml").write_text(text.partition("nav:")[0])
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "mkdocs.yml"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr


def test_the_api_page_is_what_the_docstrings_say() -> None:
    generator = _generator()
    assert generator.PAGE.read_text("utf-8") == generator.page(), "run python docs/site/api.py"


def test_every_public_name_is_on_the_api_page() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    names = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(names) == sorted(set(mdpdsl.__all__) - {"__version__"})
    for name in names:
        assert (getattr(mdpdsl, name).__doc__ or "").partition("\n")[0] in page


def _generator() -> ModuleType:
    found = importlib.util.spec_from_file_location("api_page", DOCS / "site" / "api.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
