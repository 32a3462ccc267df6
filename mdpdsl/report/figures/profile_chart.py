"""Profile likelihoods as inline SVG: a curve per run, with its intervals as chords."""

from __future__ import annotations

from mdpdsl.report.figures.likelihood_profiles import (
    EVERY_LOOK,
    ONE_LOOK,
    Chord,
    LikelihoodProfile,
    ProfilePanel,
)
from mdpdsl.report.figures.line_chart import N_COLOURS
from mdpdsl.report.figures.scales import Scale
from mdpdsl.report.markup import number, text

WIDTH, HEIGHT = 320, 232
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 20, 36


def profile_chart(panel: ProfilePanel) -> str:
    """Draw the profiles of one number; of several runs, only the ends of intervals are marked."""
    x = Scale(*panel.across, LEFT, WIDTH - RIGHT, False)
    y = Scale(*panel.up, HEIGHT - BOTTOM, TOP, False)
    is_alone = len(panel.profiles) == 1
    drawn = [_frame(panel, x, y)]
    drawn += [_threshold(each, y) for each in panel.profiles]
    drawn += [_truth(value, x) for value in panel.truths]
    for each in reversed(panel.profiles):  # the first run on top
        drawn.append(_profile(each, x, y, is_alone=is_alone))
    label = f"Profile likelihood of {panel.name}"
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(label)}">'
        f"{''.join(drawn)}</svg>"
    )


def _frame(panel: ProfilePanel, x: Scale, y: Scale) -> str:
    parts, base = [], HEIGHT - BOTTOM
    for value, label in y.ticks(5):
        at = f"{y.at(value):.1f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{at}" dy=".35em">{label}</text>')
    for value, label in x.ticks(4):
        at = f"{x.at(value):.1f}"
        parts.append(f'<line class="axis" x1="{at}" x2="{at}" y1="{base}" y2="{base + 4}"/>')
        parts.append(f'<text class="tick mid" x="{at}" y="{base + 16}">{label}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="name mid" x="{middle:.0f}" y="{HEIGHT - 4}">{text(panel.name)}</text>'
    )
    return "".join(parts)


def _threshold(profile: LikelihoodProfile, y: Scale) -> str:
    at = f"{y.at(profile.threshold):.1f}"
    return (
        f'<line class="threshold s{profile.place % N_COLOURS}" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
        f'y1="{at}" y2="{at}"/>'
    )


def _truth(value: float, x: Scale) -> str:
    at = x.at(value)
    return (
        f'<line class="optimum" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        f'<text class="note mid" x="{at:.1f}" y="{TOP - 7}">truth {number(value)}</text>'
    )


def _profile(profile: LikelihoodProfile, x: Scale, y: Scale, *, is_alone: bool) -> str:
    colour = profile.place % N_COLOURS
    points = [(x.at(value), y.at(drop)) for value, drop in profile.curve(y.low)]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    drawn = [f'<polyline class="line s{colour}" points="{path}"/>']
    if is_alone:
        drawn.insert(0, _area(profile, colour, x, y))
        drawn.append(_chord(profile.every_look, EVERY_LOOK, colour, x, y))
        drawn.append(_chord(profile.one_look, ONE_LOOK, colour, x, y))
    else:
        drawn += _ends(profile.every_look, colour, x, y)
    tip = text(f"{profile.label}\n{profile.name} = {number(profile.estimate)}")
    drawn.append(
        f'<circle class="dot f{colour}" cx="{x.at(profile.estimate):.1f}" cy="{y.at(0.0):.1f}" '
        f'r="4" data-tip="{tip}"><title>{tip}</title></circle>'
    )
    return "".join(drawn)


def _area(profile: LikelihoodProfile, colour: int, x: Scale, y: Scale) -> str:
    """Fill what is above the threshold."""
    above = profile.curve(profile.threshold)
    corners = [(above[-1][0], profile.threshold), (above[0][0], profile.threshold)]
    path = " ".join(f"{x.at(value):.1f},{y.at(drop):.1f}" for value, drop in above + corners)
    return f'<polygon class="band f{colour}" points="{path}"/>'


def _chord(chord: Chord, name: str, colour: int, x: Scale, y: Scale) -> str:
    start, end, at = x.at(chord.low), x.at(chord.high), y.at(chord.height)
    tip = text(f"{number(chord.low)} to {number(chord.high)}\n{name}")
    middle = (start + end) / 2
    return (
        f'<line class="chord s{colour}" x1="{start:.1f}" x2="{end:.1f}" y1="{at:.1f}" '
        f'y2="{at:.1f}" data-tip="{tip}"><title>{tip}</title></line>'
        f'<text class="note mid" x="{middle:.1f}" y="{at + 14:.1f}">{name}</text>'
    )


def _ends(chord: Chord, colour: int, x: Scale, y: Scale) -> list[str]:
    """Mark the ends of an interval, whose chord would hide those of other runs."""
    at = y.at(chord.height)
    return [
        f'<circle class="f{colour}" cx="{x.at(end):.1f}" cy="{at:.1f}" r="3"/>'
        for end in (chord.low, chord.high)
    ]
