"""Where trials come from: embedded families, a user's families, folders of recorded trials."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from harness.errors import ConfigurationError
from harness.harbor import load_harbor
from harness.recording import Recording
from harness.resources import DATASETS


def load_recording(config: DictConfig) -> Recording:
    """The recording that `family`, `trials` and `tasks` name.

    Raises ConfigurationError where a root is missing, InputError where a folder is not what it
    should be.
    """
    families = list(config.families) if config.families else None
    if config.trials.source == "harbor":
        if OmegaConf.is_missing(config.trials, "root"):
            raise ConfigurationError("trials.root: missing; name the folder of recorded trials")
        tasks = Path(config.tasks.root) if config.tasks.root else None
        return load_harbor(Path(config.trials.root), tasks, families)
    if config.family.path is not None:
        raise ConfigurationError(
            f"family.path={config.family.path}: a family without recorded trials cannot run yet; "
            "add trials=harbor trials.root=DIR tasks.root=DIR"
        )
    embedded = config.family.embedded
    return load_harbor(DATASETS / embedded.trials, DATASETS / embedded.tasks, families)
