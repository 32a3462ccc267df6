"""The documentation says what the program does."""

import re
import shlex
from pathlib import Path

import click
import pytest

import mdpdsl
from mdpdsl.cli import cli
from mdpdsl.compile.properties import question, questions_of_file
from mdpdsl.diagnostics import CODES
from mdpdsl.syntax.words import KEYWORDS
from tests.cli.run import quick
from tests.documentation.pages import blocks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PYTHON = (ROOT / "docs" / "python.md").read_text("utf-8")
REPORTS = (ROOT / "docs" / "reports.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "language.md").read_text("utf-8")


def test_the_readme_model_builds() -> None:
    (text,) = re.findall(r"```mdp\n(.*?)```", README, re.DOTALL)
    assert mdpdsl.loads(text).graph.hash == mdpdsl.load("riverswim").graph.hash


def test_the_readme_shows_an_error_as_printed() -> None:
    (shown,) = re.findall(r"```text\n(error: .*?)\n```", README, re.DOTALL)
    (text,) = re.findall(r"```mdp\n(.*?)```", README, re.DOTALL)
    mistaken = text.replace(" | 0.05: pos' = pos - 1", "")
    with pytest.raises(mdpdsl.ModelError) as caught:
        _ = mdpdsl.loads(mistaken).graph
    assert str(caught.value).replace("<text>", "mine.mdp") == shown


def test_the_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a file
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(code, names)
    assert names["P"].shape == (40, 20)  # type: ignore[attr-defined]
    assert len(names["best"].values) == 20  # type: ignore[attr-defined]
    assert names["best"].bound < 1e-6  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_the_commands_of_an_overview_exist_with_their_options(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    shown = "\n".join(block.text for block in blocks(text) if block.language == "sh")
    lines = re.findall(r"^mdpdsl .*$", shown, re.MULTILINE)
    commands = [command.strip() for line in lines for command in line.split("&&")]
    assert len(commands) > 10
    for line in commands:
        name, *arguments = shlex.split(line.partition(" > ")[0], comments=True)[1:]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, line
        command.make_context(name, arguments)  # raises if an option does not exist


def test_the_readme_has_the_two_commands() -> None:
    assert "pip install . && mdpdsl explore models/pendulum.mdp --kappa 10\n" in README
    assert 'pip install -e ".[dev]" && pytest\n' in README


def test_the_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("5.2 times the states per second", "5.2 times as many states per second"),
        ("3.0 with one thread", "the factor was 3.0"),
        ("0.49 of its time", "| QuantEcon 0.18 | 0.49 |"),
        ("0.27 of its time; 0.08", "| Storm 1.17 | 0.27 |"),
        ("0.08 with states shuffled", "| Storm 4.69 | 0.08 |"),
        ("230 times on Pendulum", "| pendulum | 2,160,000 | 9,400 | 230 |"),
        ("219 on Mountain Car", "| mountain_car | 1,740,000 | 7,900 | 219 |"),
        ("120 to 273 times", "273 times faster, the same value"),
        ("120 to 273 times", "ratio was 120 to 219"),
        ("| `kappa-dp`, κ = 10 | 2.20 |", "| κ = 10 | 0 | 565.9 ± 26.0 | 2.20 |"),
        ("| random actions | 6.22 |", "| random | 0 | 1,601.8 ± 66.4 | 6.22 |"),
        ("| random actions | 6.22 | 17.99 |", "| random |  | 17.99 / 7.24 |"),
        ("| `tracking`, κ = 10 | 1.32 |", "| tracking | kappa 10 | 1.32 ± 0.01 / 1.11"),
        ("| `tracking`, κ = 10 | 1.32 | 1.95 |", "| tracking | kappa 10 | 1.95 / 1.46 |"),
        ("bonus | – | 2.48 |", "| kappa-dp | kappa 2, gamma 0.99, bonus bernstein | 2.48 /"),
        ("| `kappa-lp` | – | 17.12 |", "| kappa-lp | kappa 1, bonus paper, backend evi | 17.12 /"),
    ],
)
def test_the_readme_claims_what_was_measured(claim: str, source: str) -> None:
    benchmarks = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    table = (ROOT / "docs" / "paper-table.md").read_text("utf-8")
    assert claim in README.replace("\n", " ")
    evidence = (ROOT / "docs" / "evidence.md").read_text("utf-8")
    assert source in (benchmarks + table + evidence).replace("\n", " ")


def test_the_python_page_names_the_function_of_every_command() -> None:
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", PYTHON, re.MULTILINE)[1:]
    commands, functions, results = (
        re.findall(r"`(\w+)`", " ".join(c)) for c in zip(*rows, strict=True)
    )
    assert sorted(commands) == sorted(set(cli.list_commands(click.Context(cli))) - {"lsp"})
    assert {*functions, *results} <= set(mdpdsl.__all__)
    for name in ("load", *functions):
        assert f"mdpdsl.{name}(" in PYTHON, name


def test_the_changelog_names_what_is_deprecated() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for name, (_, _, successor) in mdpdsl._REPLACED.items():
        verb = re.sub(r"^mdpdsl\.", "", successor)
        assert f"| `{name}` | `{verb}` |" in changelog


def test_the_links_of_other_files_lead_somewhere() -> None:
    for name in ("CHANGELOG.md", "SECURITY.md"):
        links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text("utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_commands_of_reports_have_the_options_that_are_shown() -> None:
    for line in re.findall(r"^mdpdsl (.*?)(?: +#.*)?$", REPORTS, re.MULTILINE):
        name, *words = shlex.split(line)
        known = quick(name, "--help").stdout
        assert all(word in known for word in words if word.startswith("--"))


def test_every_picture_of_the_documentation_is_there() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text("utf-8")):
            assert (page.parent / path).stat().st_size < 150_000, path


def test_the_models_of_the_reference_build(tmp_path: Path) -> None:
    shown = [mdpdsl.loads(b.text) for b in blocks(REFERENCE) if b.language == "mdp"]
    assert len(shown) >= 4
    for model in shown:
        model.graph.validate()
        assert model.diagnose() == []
        for name in model.properties:
            assert question(model, model.graph, name).name == name
    (asked,) = (b.text for b in blocks(REFERENCE) if b.argument("file") == "ice.props")
    (tmp_path / "ice.props").write_text(asked, "utf-8")
    (ice,) = (model for model in shown if model.properties)
    found = questions_of_file(ice, ice.graph, tmp_path / "ice.props", {"k": 3})
    assert [each.name for each in found] == ["soon", "dry"]


def test_the_reference_lists_every_code_and_keyword() -> None:
    for code, meaning in CODES.items():
        assert f"| {code} | {meaning} |" in REFERENCE
    for word in KEYWORDS:
        assert re.search(rf"\b{word}\b", REFERENCE), word
