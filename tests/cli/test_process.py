"""What only a process of its own shows: usage, imports, signals, pipes, and models too large."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mdpdsl.cli import COMMANDS
from mdpdsl.compile.merge import Transitions
from mdpdsl.compile.transitions import TransitionKernel
from mdpdsl.graph.space import IntArray
from tests.cli.run import GOOD, TIMEOUT, mdpdsl, quick, written

#: 10^12 states, of which the search finds more and more, a million in each round.
VAST = """\
mdp vast
state x in 0..9_999
state y in 0..9_999
state z in 0..9_999
action a, b, c
init x = 0, y = 0, z = 0
on a -> 0.5: x' = (x + 1) % 10_000 | 0.5: stay
on b -> 0.5: y' = (y + 1) % 10_000 | 0.5: stay
on c -> 0.5: z' = (z + 1) % 10_000 | 0.5: stay
"""

#: Long to build, but small enough to be built: four million states one after the other.
LONG = """\
mdp long
state x in 0..2_999_999
action a, b, c, d
init x = 0
on any -> 0.3: x' = (x + 1) % 3_000_000 | 0.3: x' = (x * 7) % 3_000_000 | 0.4: stay
"""

#: A refusal takes a second or two; this only bounds it away from exploring the whole.
REFUSAL_SECONDS = 20


# Usage


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command(option: str) -> None:
    outcome = mdpdsl(option)
    assert (outcome.status, outcome.stderr) == (0, "")
    for command, line in COMMANDS.items():
        assert command in outcome.stdout
        assert line in outcome.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_takes_json(command: str) -> None:
    outcome = quick(command, "--help")
    assert outcome.status == 0
    assert "--json" in outcome.stdout


def test_the_version_is_the_one_installed() -> None:
    from importlib.metadata import version

    assert version("mdpdsl") in mdpdsl("--version").stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "lark", "scipy", "matplotlib", "rich", "networkx")
    program = f"""
import sys
sys.argv = ["mdpdsl", "--help"]
from mdpdsl.cli import main
try:
    main()
finally:
    print(sorted(set({heavy}) & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert "Commands" in done.stdout
    assert done.stderr == "[]\n"


def test_an_unknown_command_gets_a_hint() -> None:
    outcome = mdpdsl("chek", "riverswim")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "did you mean `check`?" in outcome.stderr


def test_a_command_unlike_any_other_gets_the_list() -> None:
    outcome = mdpdsl("qqqqq")
    assert outcome.status == 2
    for command in COMMANDS:
        assert command in outcome.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("chek", "riverswim"),
        ("check", "riverswim", "--nonsense"),
        ("check",),
        ("show",),
        ("show", "riverswim", "weather"),
        ("fmt",),
        ("models", "a", "b"),
        ("export", "weather"),
        ("show", "riverswim", "--set"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_in_text_and_json(arguments: tuple[str, ...]) -> None:
    outcome = mdpdsl(*arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr != ""
    # First, because behind a `--set` without a value it would be that value.
    place = 1 if arguments[-1] == "--set" else len(arguments)
    outcome = mdpdsl(*arguments[:place], "--json", *arguments[place:])
    assert outcome.status == 2
    (record,) = outcome.json()["errors"]
    assert record["message"]
    assert record.keys() >= {"code", "message", "line", "column", "help", "witness"}


# Pipes and signals


def _start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "mdpdsl", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    "arguments", [("models",), ("models", "riverswim"), ("models", "--json"), ("show", "weather")]
)
def test_a_reader_that_goes_away_leaves_no_traceback(arguments: tuple[str, ...]) -> None:
    process = _start(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(TIMEOUT) in (0, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    "arguments", [("models",), ("show", "weather"), ("show", "weather", "--json")]
)
def test_a_full_disk_fails_the_run_without_a_traceback(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mdpdsl", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr


def test_an_interrupt_ends_a_long_build_with_1_and_no_traceback(tmp_path: Path) -> None:
    path = written(tmp_path, LONG)
    process = _start("show", path)
    assert process.stderr is not None
    try:
        # When its memory has grown the building is under way, and it lasts for seconds.
        _wait_for_memory(process.pid, 150 << 20)
        assert process.poll() is None, "the build is over before it could be interrupted"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 1
    assert stdout == b""
    assert stderr.strip() == b"interrupted"


def _wait_for_memory(process: int, least: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return
        if pages * os.sysconf("SC_PAGE_SIZE") > least:
            return
        time.sleep(0.02)


# Models too large


def test_a_trillion_states_are_refused_with_their_number(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mdpdsl", "check", str(written(tmp_path, VAST)), "--json"],
        capture_output=True,
        timeout=REFUSAL_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    (record,) = json.loads(done.stdout)["files"][0]["errors"]
    assert record["code"] == "E701"
    assert "1,000,000,000,000 states (10,000 x 10,000 x 10,000)" in record["message"]
    assert "max_states" in record["help"].replace("-", "_")  # an argument, or a flag


def test_a_trillion_states_are_refused_before_a_million_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_expanded = 0
    original = TransitionKernel.transitions

    def counted(kernel: TransitionKernel, codes: IntArray) -> Transitions:
        nonlocal n_expanded
        n_expanded += len(codes)
        return original(kernel, codes)

    monkeypatch.setattr(TransitionKernel, "transitions", counted)
    outcome = quick("show", written(tmp_path, VAST), "--json")
    assert outcome.status == 2
    assert outcome.json()["errors"][0]["code"] == "E701"
    assert 0 < n_expanded < 1_000_000


def test_a_trillion_states_kept_whole_are_refused_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("nothing needs to be expanded")

    monkeypatch.setattr(TransitionKernel, "transitions", never)
    outcome = quick("show", written(tmp_path, VAST), "--all-states", "--json")
    assert outcome.status == 2
    assert "1,000,000,000,000 states" in outcome.json()["errors"][0]["message"]


def test_a_few_reachable_states_of_a_trillion_are_no_problem(tmp_path: Path) -> None:
    text = VAST.replace("% 10_000", "% 3")
    assert quick("show", written(tmp_path, text), "--json").json()["states"] == 27


def test_the_tool_needs_no_home_folder(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    outcome = mdpdsl(
        "check", path, environment={"HOME": "/nonexistent", "XDG_CACHE_HOME": "/proc/nowhere"}
    )
    assert (outcome.status, outcome.stderr) == (0, "")
