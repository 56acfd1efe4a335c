"""Shards: a sweep too large for one process, as Hydra jobs that append to one store."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import hydra
import polars as pl
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from harness.errors import ConfigurationError, MemosFlowError
from harness.resources import CONF

#: What of a command line is Hydra's own: where the jobs of a sweep run.
LAUNCHER_KEYS = ("hydra/launcher=", "hydra.launcher.", "+hydra.launcher.")


def of_shard(lanes: pl.DataFrame, shard: int, shards: int) -> pl.DataFrame:
    """The lanes of one shard. A lane that is given another's packets is in the other's shard.

    Raises ConfigurationError where there are more shards than lanes that can be told apart.
    """
    together = pl.coalesce("packet_source_lane_id", "lane_id").rank("dense").cast(pl.Int64) - 1
    placed = lanes.with_columns(group=together)
    groups = placed["group"].n_unique()
    if shards > groups:
        raise ConfigurationError(
            f"shards: found {shards}, expected at most {groups}, one per lane to share out"
        )
    return placed.filter(pl.col("group") % shards == shard).drop("group")


def launch(
    job: Callable[[int], None], shards: Sequence[int], launcher: Sequence[str], folder: Path
) -> None:
    """Run `job` for each shard with Hydra's launcher; returns when all have ended, done or not.

    `launcher`: overrides such as `hydra/launcher=joblib`. Raises ConfigurationError for a launcher
    that is not there.
    """

    def shard_job(config: DictConfig) -> None:
        try:
            job(config.shard)
        except MemosFlowError as error:
            print(f"memos-flow: shard {config.shard}: {error}", file=sys.stderr)

    GlobalHydra.instance().clear()
    main = hydra.main(config_path=str(CONF), config_name="shards", version_base="1.3")(shard_job)
    numbers = ",".join(map(str, shards))
    words = ("--multirun", f"shard={numbers}", f"hydra.sweep.dir={folder}", *launcher)
    with _arguments(*words), warnings.catch_warnings():
        # Ray starts programs of its own, which never use the store of this process.
        warnings.filterwarnings("ignore", "lancedb fork support", RuntimeWarning)
        # Hydra has told already why a job, or the launcher, failed; which shards have steps left is
        # told by the store.
        with suppress(SystemExit):
            main()


@contextmanager
def _arguments(*words: str) -> Iterator[None]:
    """Hydra's public entrance reads the command line of the process."""
    own = sys.argv
    sys.argv = [own[0], *words]
    try:
        yield
    finally:
        sys.argv = own
