"""Progress: a bar on a terminal, plain lines elsewhere, nothing for what is over in a second."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")
#: Seconds before the first sign, and between two lines where there is no terminal.
_DELAY, _BETWEEN_LINES = 1.0, 5.0


def progress(items: Iterable[_Item], *, total: int, description: str) -> Iterator[_Item]:
    """The items, while stderr shows how many of `total` are done."""
    on_terminal = sys.stderr.isatty()
    bar = tqdm(
        items,
        total=total,
        desc=description,
        delay=_DELAY,
        mininterval=0.1 if on_terminal else _BETWEEN_LINES,
        bar_format=None if on_terminal else "{desc}: {n_fmt}/{total_fmt} [{elapsed}]\n",
        leave=on_terminal,
        file=sys.stderr,
    )
    yield from bar
