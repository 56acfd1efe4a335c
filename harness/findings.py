"""What is odd in a folder of the user's: said, never mended in silence."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, order=True)
class Finding:
    """`error`: cannot be used; `warning`: was used, with care; `note`: good to know."""

    path: str
    severity: Literal["error", "warning", "note"]
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path}: {self.message}"
