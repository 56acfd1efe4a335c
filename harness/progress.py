"""Progress: a bar on a terminal, plain lines elsewhere, nothing for what is over in a second."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")
#: Seconds before the first sign on a terminal, and between two lines elsewhere.
_DELAY, _BETWEEN_LINES = 1.0, 5.0


def progress(items: Iterable[_Item], *, total: int, description: str) -> Iterator[_Item]:
    """The items, while stderr shows how many of `total` are done."""
    if sys.stderr.isatty():
        return iter(tqdm(items, total=total, desc=description, delay=_DELAY, file=sys.stderr))
    return _in_lines(items, total, description)


def _in_lines(items: Iterable[_Item], total: int, description: str) -> Iterator[_Item]:
    started = told = monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = monotonic()
        if now - told >= _BETWEEN_LINES:
            print(f"{description}: {done}/{total}, {now - started:.0f} s", file=sys.stderr)
            told = now
