"""How far trials are, on a board."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing, new_board, post, standings

FIGURE = st.none() | st.floats(0, 1e12)


@given(
    st.lists(
        st.builds(
            Standing, st.integers(0, 2**52), st.none() | st.integers(0, 10**9), FIGURE, FIGURE
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_board_keeps_what_was_posted(found: list[Standing]) -> None:
    board = new_board(len(found))
    assert standings(board) == [Standing(0)] * len(found)
    for index, each in enumerate(found):
        post(board, index, each)
    assert standings(board) == found


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_gets_steps_and_the_measures_of_checkpoints(jobs: int) -> None:
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(steps=1_000_000)
    boards: list[list[Standing]] = []
    results = run_trials(
        graph, settings, seed=0, trials=2, jobs=jobs, progress=lambda s: boards.append(list(s))
    )
    assert any(each.unvisited is not None for board in boards for each in board)
    for trial, result in enumerate(results):
        first: dict[tuple[int | None, float | None], int] = {}
        for m in result.history:
            first.setdefault((m.unvisited, m.worst), m.step)
        for each in (board[trial] for board in boards):
            if each.unvisited is not None:
                assert first[each.unvisited, each.worst] <= each.steps
