"""Numbers and words as the documents show them: the one place where a measured value becomes text."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from math import floor, log10

# Keeps a number with its unit, and an interval in one piece.
NBSP = "\u00a0"
# What stands where there is no number.
BLANK = "–"
# How a verdict looks beside a number.
SIGNS = {"faster": "↑", "slower": "↓", "equivalent": "=", "inconclusive": "?"}


def ci(row: dict) -> str:
    """Return a speedup with its interval as text, 1.28 [1.26, 1.30]; without an interval where n is 1.

    All three have the same decimals: two digits of the interval's half width, at most about three of the estimate
    and, of one near 1, two or three decimals. A line may break only before the bracket.
    """
    estimate, low, high = row["speedup"], row["ci_low"], row["ci_high"]
    if estimate is None or low is None:
        return value(estimate)
    decimals = _decimals(estimate)
    if high > low:
        digits = 3 if 0.1 <= estimate < 10 else decimals
        least = 2 if estimate < 10 else 0
        decimals = max(least, min(digits, 1 - floor(log10((high - low) / 2))))
    return _minus(f"{estimate:,.{decimals}f} [{low:,.{decimals}f},{NBSP}{high:,.{decimals}f}]")


def signed(row: dict | None) -> str:
    """Return a speedup with its interval and the sign of its verdict, – where there is no row or no value in it."""
    if row is None or row["speedup"] is None:
        return BLANK
    return f"{ci(row)} {SIGNS.get(row['verdict'], '')}".strip()


def value(number: float | None) -> str:
    """Return a measured number with about three significant digits, – where there is none."""
    return BLANK if number is None else _minus(f"{number:,.{_decimals(number)}f}")


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _decimals(number: float) -> int:
    """Return the decimals that show about three significant digits."""
    return max(0, min(4, 2 - floor(log10(abs(number))))) if number else 0


def percent(share: float | None) -> str:
    """Return a share as text with two significant digits below 10 %, whole above: 0.0123 is 1.2 %; – for None."""
    if share is None:
        return BLANK
    digits = f"{share * 100:#.2g}" if 0 < share < 0.0995 else f"{share * 100:.0f}"
    return f"{digits}{NBSP}%"


def factor(speedup: float) -> str:
    """Return a speedup with two decimals below 10, one above."""
    return f"{speedup:.2f}" if speedup < 10 else f"{speedup:,.1f}"


def span(values: list[float], show: Callable[[float], str] = factor) -> str:
    """Return the least and the greatest of values as `show` writes them: 0.81–2.82, or one where both read the same."""
    return "–".join(dict.fromkeys([show(min(values)), show(max(values))]))


def whole(count: float) -> str:
    """Return a number without its decimals: 10,156."""
    return f"{count:,.0f}"


def number(count: float | None) -> str:
    """Return a count: 1,240; – where there is none."""
    return BLANK if count is None else f"{count:,.10g}"


def size(text: str) -> str:
    """Return a size as people write it: 20,971,520, or 256 MiB."""
    return number(int(text)) if text.isdigit() else re.sub(r"(?<=\d)(?=[KMG]iB$)", NBSP, text)


def text(given) -> str:
    """Return what a table shows: a text as it is, a count, a measured number, a list with commas, – for None."""
    if isinstance(given, list):
        return ", ".join(map(str, given))
    return given if isinstance(given, str) else value(given) if isinstance(given, float) else number(given)


def name_some(names: list[str], most: int = 3) -> str:
    """Return the first of several names, and how many others there are: a, b, c and 4 more."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def with_unit(times: list[float], unit: str) -> str:
    """Return a time, or the least and the greatest of several, with the unit: 18.2–403 µs; from 1,000 µs on in ms."""
    if unit == "µs" and max(times) >= 1000:
        times, unit = [time / 1000 for time in times], "ms"
    return f"{span(times, value)}{NBSP}{unit}"


def calls(row: dict | None) -> str:
    """Return after how many calls a row of `payback` says that compiling has paid, – where there is no row."""
    if row is None:
        return BLANK
    if row["kind"] == "after":
        return whole(row["calls"])
    return "never" if row["kind"] == "never" else "undecided"


def duration(seconds: float) -> str:
    """Return seconds as people say them: 9 s, 12 min, 3 h 05 min."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def clock(seconds: float) -> str:
    """Return the time of day in so many seconds from now, with the weekday where it is not today."""
    now = datetime.now()
    then = now + timedelta(seconds=seconds)
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%a %H:%M}"
