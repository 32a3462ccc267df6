"""The best row for nature of a set of rows.

With a key x(s') for every state, the best row maximises  sum_s' p(s') x(s'):

* intervals: every entry has its lower end; the rest goes to the entries with the largest keys, up
  to their upper ends (Nilim and El Ghaoui 2005). Entries among the *others*, listed or not, have a
  common upper end, too.
* l1: half of the radius moves from the entries with the smallest keys to the largest one (Strehl
  and Littman 2008).
* kl: for every nu >= max x, with the estimate q and the radius e,

      max p x  <=  nu - exp(sum q log(nu - x) - e),

  with equality at the best nu (the dual; Filippi, Cappe and Garivier 2010), where
  p = lambda q/(nu - x), and what is missing to 1 goes to the largest key. Any nu gives a valid
  bound, so a root that is found approximately does no harm.

The least value is minus the largest of negated keys.
"""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.kernels.compiled import entry, inner, seldom
from mdpdsl.kernels.set_rows import INTERVALS, L1, SLACK, Ranking, Room, SetRows

#: Steps of the search for nu, and the relative change of nu - max x that ends it.
MOST_STEPS, SETTLED = 100, 1e-10


@seldom
def extreme(
    rows: SetRows,
    row: int,
    values: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
    shift: float,
    unit: float,
) -> tuple[float, int]:
    """Return the best  sum_s' p(s') (gain + factor V(s') - shift)  for nature, and the extras used.

    Nature maximises if `sense` is 1 and minimises if it is -1. The row is left in `room.mass`, by
    entry, and in `room.extra_*`. Every term is made larger, for nature, by `unit` times its size.
    """
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    key = room.key
    for k in range(begin, end):
        ahead = factor * values[rows.target[k]] - shift
        x = sense * (rows.gain[k] + ahead)
        if unit > 0.0 and abs(ahead) < math.inf:
            x += unit * (abs(rows.gain[k]) + abs(ahead))
        key[k - begin] = x
    _sort(room.order, begin, end, key)
    if rows.shape == INTERVALS:
        best, n_extra = _fill(rows, row, ranked, room, factor, sense, shift, unit)
    else:
        best, n_extra = _ball(rows, row, ranked, room, factor, sense, shift, unit)
    return sense * best, n_extra


@inner
def best_value(
    rows: SetRows,
    row: int,
    values: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
) -> float:
    """Return the best value of a row without the row itself.

    Entries with larger keys than the one that was filled last are at their upper ends, others at
    their lower ones. If that fits, it is still the best row, and nothing needs to be sorted.
    """
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    if rows.shape == INTERVALS and rows.rest[row] == 0.0 and end > begin:
        k = begin + room.marginal[row]
        last = sense * (rows.gain[k] + factor * values[rows.target[k]])
        if abs(last) < math.inf:
            left, total, above, tied = 1.0, 0.0, 0.0, 0.0
            for k in range(begin, end):
                x = sense * (rows.gain[k] + factor * values[rows.target[k]])
                p = rows.low[k]
                left -= p
                if x > last:
                    above += rows.high[k] - p
                    p = rows.high[k]
                elif x == last:
                    tied += rows.high[k] - p
                if p > 0.0:
                    total += p * x
            if above <= left <= above + tied:
                return sense * (total + (left - above) * last)
    found, _ = extreme(rows, row, values, ranked, room, factor, sense, 0.0, 0.0)
    return found


@inner
def _sort(order: np.ndarray, begin: int, end: int, key: np.ndarray) -> None:
    """Sort the entries of a row by falling keys; they usually are almost sorted."""
    for i in range(begin + 1, end):
        moved = order[i]
        x = key[moved]
        j = i - 1
        while j >= begin and key[order[j]] < x:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = moved


@inner
def _is_listed(rows: SetRows, begin: int, end: int, state: int) -> bool:
    """Return whether a state is among the entries of a row."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if rows.target[middle] < state:
            low = middle + 1
        else:
            high = middle
    return low < end and rows.target[low] == state


@inner
def _next_other(rows: SetRows, begin: int, end: int, ranked: Ranking, at: int) -> int:
    """Return the place of the best state that is not listed, from some place on."""
    while at < len(ranked.state) and _is_listed(rows, begin, end, ranked.state[at]):
        at += 1
    return at


@inner
def _other_key(
    ranked: Ranking, at: int, factor: float, sense: float, shift: float, unit: float
) -> float:
    ahead = factor * ranked.value[at] - shift
    return sense * ahead + (unit * abs(ahead) if abs(ahead) < math.inf else 0.0)


@inner
def _fill(
    rows: SetRows,
    row: int,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
    shift: float,
    unit: float,
) -> tuple[float, int]:
    """Fill intervals from the largest key on."""
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    left, cap, total = 1.0, rows.rest[row], 0.0
    for k in range(begin, end):
        p = rows.low[k]
        room.mass[k - begin] = p
        if p > 0.0:
            left -= p
            total += p * room.key[k - begin]
            if rows.is_other[k]:
                cap -= p
    each = rows.each[row]
    n_extra, i, at = 0, begin, 0
    first, is_first_listed = -1, True
    has_unlisted = each > 0.0 and cap > 0.0
    if has_unlisted:
        at = _next_other(rows, begin, end, ranked, 0)
    while left > 0.0:
        has_unlisted = has_unlisted and at < len(ranked.state) and cap > 0.0
        x_other = -math.inf
        if has_unlisted:
            x_other = _other_key(ranked, at, factor, sense, shift, unit)
        if i == end and not has_unlisted:
            break
        if i < end and (not has_unlisted or room.key[room.order[i]] >= x_other):
            place = room.order[i]
            k = begin + place
            add = rows.high[k] - rows.low[k]
            if rows.is_other[k]:
                add = min(add, cap)
            add = min(add, left)
            i += 1
            if add <= 0.0:
                continue
            x = room.key[place]
            if x == -math.inf and left <= SLACK:
                break
            if rows.is_other[k]:
                cap -= add
            room.mass[place] += add
            room.marginal[row] = place
            if first < 0:
                first = place
        else:
            add, x = min(min(each, cap), left), x_other
            if x == -math.inf and left <= SLACK:
                break
            cap -= add
            room.extra_state[n_extra] = ranked.state[at]
            room.extra_mass[n_extra] = add
            if first < 0:
                first, is_first_listed = n_extra, False
            n_extra += 1
            at = _next_other(rows, begin, end, ranked, at + 1)
        total += add * x
        left -= add
    if left > 0.0:
        if first < 0 and end > begin:
            first = room.order[begin]
        # Rounding leaves a little: it goes to the largest key, which can only help nature.
        if first >= 0:
            if is_first_listed:
                room.mass[first] += left
                if room.key[first] > -math.inf:
                    total += left * room.key[first]
            else:
                room.extra_mass[first] += left
                total += left * _other_key(
                    ranked, _place_of(ranked, room.extra_state[first]), factor, sense, shift, unit
                )
    return total, n_extra


@inner
def _place_of(ranked: Ranking, state: int) -> int:
    at = 0
    while ranked.state[at] != state:
        at += 1
    return at


@inner
def _ball(
    rows: SetRows,
    row: int,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
    shift: float,
    unit: float,
) -> tuple[float, int]:
    """Find the best row of a ball; without an estimate, any row is possible."""
    begin, end = rows.row_start[row], rows.row_start[row + 1]
    known, most, top = 0.0, -math.inf, -1
    if end > begin:
        top = room.order[begin]
        most = room.key[top]
    for k in range(begin, end):
        known += rows.low[k]
        room.mass[k - begin] = rows.low[k]
    n_extra = 0
    if rows.rest[row] > 0.0 and rows.each[row] > 0.0:
        at = _next_other(rows, begin, end, ranked, 0)
        if at < len(ranked.state):
            x = _other_key(ranked, at, factor, sense, shift, unit)
            if x > most or top < 0:
                most, n_extra = x, 1
                room.extra_state[0] = ranked.state[at]
                room.extra_mass[0] = 0.0
    radius = rows.radius[row]
    if known < 0.5 or radius == math.inf:  # never visited, or without a bound
        for k in range(begin, end):
            room.mass[k - begin] = 0.0
        _put(room, top, n_extra, 1.0)
        return most, n_extra
    if radius <= 0.0:
        n_extra = 0
        return _expected(rows, begin, end, room), n_extra
    if rows.shape == L1:
        return _moved(rows, begin, end, room, most, top, n_extra, min(radius / 2, 1.0)), n_extra
    return _tilted(rows, begin, end, room, most, top, n_extra, radius, unit), n_extra


@inner
def _put(room: Room, top: int, n_extra: int, p: float) -> None:
    """Add probability to the largest key."""
    if n_extra > 0:
        room.extra_mass[0] += p
    else:
        room.mass[top] += p


@inner
def _expected(rows: SetRows, begin: int, end: int, room: Room) -> float:
    total = 0.0
    for k in range(begin, end):
        if rows.low[k] > 0.0:
            total += rows.low[k] * room.key[k - begin]
    return total


@inner
def _moved(
    rows: SetRows,
    begin: int,
    end: int,
    room: Room,
    most: float,
    top: int,
    n_extra: int,
    move: float,
) -> float:
    """Move probability from the smallest keys to the largest one."""
    has = 0.0 if n_extra > 0 else rows.low[begin + top]
    left = min(move, 1.0 - has)
    moved = 0.0
    for i in range(end - 1, begin - 1, -1):
        place = room.order[i]
        if n_extra == 0 and place == top:
            continue
        taken = min(room.mass[place], left - moved)
        room.mass[place] -= taken
        moved += taken
        if moved >= left:
            break
    total = moved * most if moved > 0.0 else 0.0
    for k in range(begin, end):
        p = room.mass[k - begin]
        x = room.key[k - begin]
        if p > (SLACK if x == -math.inf else 0.0):
            total += p * x
    _put(room, top, n_extra, moved)
    return total


@inner
def _tilted(
    rows: SetRows,
    begin: int,
    end: int,
    room: Room,
    most: float,
    top: int,
    n_extra: int,
    radius: float,
    unit: float,
) -> float:
    """Minimise the dual over nu = max x + s; bound the value, and leave the row."""
    if most == -math.inf:
        return -math.inf
    if most == math.inf:
        for k in range(begin, end):
            room.mass[k - begin] *= math.exp(-radius)
        _put(room, top, n_extra, -math.expm1(-radius))
        return math.inf
    mean, square, at_top = 0.0, 0.0, 0.0
    for k in range(begin, end):
        q = rows.low[k]
        if q > 0.0:
            y = most - room.key[k - begin]
            if y == math.inf:
                return -math.inf
            mean += q * y
            square += q * y * y
            if y == 0.0:
                at_top += q
    if mean == 0.0:  # nothing could be better
        return most
    s = _root(rows, begin, end, room, most, at_top, radius, mean, square)
    if s == 0.0:
        exponent = -radius
        for k in range(begin, end):
            if rows.low[k] > 0.0:
                exponent += rows.low[k] * math.log(most - room.key[k - begin])
        weight = math.exp(exponent)
        value = most - weight
    else:
        exponent = -radius
        for k in range(begin, end):
            if rows.low[k] > 0.0:
                exponent += rows.low[k] * math.log1p((most - room.key[k - begin]) / s)
        weight = s * math.exp(exponent)
        value = most - s * math.expm1(exponent)
    total = 0.0
    for k in range(begin, end):
        q = rows.low[k]
        p = 0.0 if q == 0.0 else weight * q / (s + (most - room.key[k - begin]))
        room.mass[k - begin] = p
        total += p
    if total > 1.0:
        for k in range(begin, end):
            room.mass[k - begin] /= total
    else:
        _put(room, top, n_extra, 1.0 - total)
    return value + 4 * unit * (mean + s * radius)


@inner
def _root(
    rows: SetRows,
    begin: int,
    end: int,
    room: Room,
    most: float,
    at_top: float,
    radius: float,
    mean: float,
    square: float,
) -> float:
    """Return s with  sum q log(s + y) + log sum q/(s + y) = radius,  or 0 if there is none.

    The left side falls from its value at 0, which is infinite if the estimate has the largest key,
    to 0. The root is searched in log s.
    """
    if at_top == 0.0:
        logs, inverse = 0.0, 0.0
        for k in range(begin, end):
            q = rows.low[k]
            if q > 0.0:
                y = most - room.key[k - begin]
                logs += q * math.log(y)
                inverse += q / y
        if logs + math.log(inverse) <= radius:
            return 0.0
    deviation = math.sqrt(max(square - mean * mean, 0.0)) + 1e-3 * mean
    t = math.log(deviation / math.sqrt(2 * radius))
    low, high, reach = -math.inf, math.inf, 2.0
    for turn in range(MOST_STEPS):
        s = math.exp(t)
        logs, inverse, second = 0.0, 0.0, 0.0
        for k in range(begin, end):
            q = rows.low[k]
            if q > 0.0:
                part = s / (s + (most - room.key[k - begin]))  # in (0, 1]
                logs -= q * math.log(part)
                inverse += q * part
                second += q * part * part
        over = logs + math.log(inverse) - radius
        if over > 0.0:
            low = t
        else:
            high = t
        slope = inverse - second / inverse  # of the left side in t, at most 0
        new = t - over / slope if slope < 0.0 else math.inf
        if abs(new - t) <= SETTLED:
            break
        if low == -math.inf:
            new = max(new, t - reach) if new < t else t - reach
            reach *= 2
        elif high == math.inf:
            new = min(new, t + reach) if new > t else t + reach
            reach *= 2
        elif not low < new < high or turn % 4 == 3:  # tangents may be slow where the curve bends
            new = (low + high) / 2
        t = new
        if high - low <= SETTLED:
            break
    return math.exp(t)


@entry
def nature_rows(
    rows: SetRows,
    values: np.ndarray,
    ranked: Ranking,
    room: Room,
    factor: float,
    sense: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return nature's best rows: starts, states, probabilities, expected gains, and values."""
    n = len(rows.constant)
    start = np.zeros(n + 1, np.int64)
    size = len(rows.target) + n * len(room.extra_state)
    state, p = np.empty(size, np.int32), np.empty(size)
    gain, worth = np.zeros(n), np.zeros(n)
    at = 0
    for row in range(n):
        value, n_extra = extreme(rows, row, values, ranked, room, factor, sense, 0.0, 0.0)
        worth[row] = rows.constant[row] + value
        begin, end = rows.row_start[row], rows.row_start[row + 1]
        used = 0
        for k in range(begin, end):
            x = room.mass[k - begin]
            while used < n_extra:  # entries stay sorted by state
                place = _least_extra(room, n_extra)
                if room.extra_state[place] > rows.target[k]:
                    break
                state[at], p[at] = room.extra_state[place], room.extra_mass[place]
                room.extra_state[place] = len(values)
                at += 1
                used += 1
            # What rounding left over is dropped, but not what is small for a reason.
            if x > SLACK or (x > 0.0 and rows.low[k] > 0.0 and rows.shape != L1):
                state[at], p[at] = rows.target[k], x
                gain[row] += x * rows.gain[k]
                at += 1
        while used < n_extra:
            place = _least_extra(room, n_extra)
            state[at], p[at] = room.extra_state[place], room.extra_mass[place]
            room.extra_state[place] = len(values)
            at += 1
            used += 1
        first, total = start[row], 0.0
        for i in range(first, at):
            total += p[i]
        for i in range(first, at):
            p[i] /= total
        gain[row] /= total
        start[row + 1] = at
    return start, state[:at].copy(), p[:at].copy(), gain, worth


@inner
def _least_extra(room: Room, n_extra: int) -> int:
    least = 0
    for i in range(1, n_extra):
        if room.extra_state[i] < room.extra_state[least]:
            least = i
    return least
