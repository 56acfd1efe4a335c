"""The few ways in which a run is refused. Each names the place, what was found, what to do."""

from pathlib import Path


class MemosFlowError(Exception):
    """Something the user can mend. The command line prints it and exits with code 2."""


class InputError(MemosFlowError):
    """A file or folder of the user's is not what it should be."""

    def __init__(
        self,
        path: Path | str,
        problem: str,
        *,
        field: str | None = None,
        found: object = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path = path
        where = f"{path}: {field}" if field else f"{path}"
        parts = [f"{where}: {problem}"]
        if found is not None:
            parts.append(f"found {found!r}")
        if expected:
            parts.append(f"expected {expected}")
        message = ", ".join(parts)
        super().__init__(f"{message}. {hint}" if hint else message)


class ConfigurationError(MemosFlowError):
    """An override or a configuration file is not understood."""


class StoreError(MemosFlowError):
    """A run folder cannot be read or continued."""
