"""Where the data that travels with the program lies: inside the wheel, else in the checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_WHEEL = _PACKAGE / "_data"
_ROOT = _WHEEL if _WHEEL.is_dir() else _PACKAGE.parent

CONF = _ROOT / "conf"
DATASETS = _ROOT / "datasets"
