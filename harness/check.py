"""Check: what is odd in the user's folders, told without changing them."""

from pathlib import Path

from omegaconf import DictConfig

from harness.errors import InputError
from harness.families import load_families
from harness.findings import Finding
from harness.sources import load_source


def findings_of(config: DictConfig) -> list[Finding]:
    """The findings of the family folder (`family.path`) or of the recorded trials, by path.

    An input that cannot be read at all is an `error` finding too.
    """
    try:
        if config.family.path is not None and config.trials.source == "embedded":
            return load_families(Path(config.family.path)).findings
        return load_source(config).recording.findings
    except InputError as error:
        return [Finding(str(error.path), "error", str(error))]
