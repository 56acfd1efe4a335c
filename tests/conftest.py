"""What the tests share: settings with the defaults of conf/, and a library with given vectors."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from omegaconf import DictConfig, OmegaConf

from harness.configuration import flattened
from harness.embedders import HashingEmbedder
from memos_flow.lexicon import Lexicon
from memos_flow.library import Library
from memos_flow.schemas import Variants
from memos_flow.texts import texts_frame
from memos_flow.wording import Wording

CONF = Path(__file__).parents[1] / "conf"

# The engine of the run loop: the default one may stream, and then joins lose their order.
pl.Config.set_engine_affinity("in-memory")


def defaults() -> dict[str, Any]:
    """The settings as a user gets them."""
    embedder = OmegaConf.load(CONF / "embedder" / "wordllama.yaml")
    settings = OmegaConf.load(CONF / "settings.yaml")
    merged = OmegaConf.merge({"embedder": embedder}, settings)
    assert isinstance(merged, DictConfig)
    resolved = OmegaConf.to_container(merged, resolve=True)
    assert isinstance(resolved, dict)
    del resolved["embedder"]
    return flattened({str(key): value for key, value in resolved.items()})


Settings = Callable[..., pl.DataFrame]
Plane = Callable[[Mapping[str, float]], Library]


@pytest.fixture
def settings() -> Settings:
    """A settings row per lane (`lanes`), the defaults but for the given overrides."""

    def build(
        lanes: Sequence[int] = (1,), *, observational: bool = False, **over: Any
    ) -> pl.DataFrame:
        row = {**defaults(), **over, "variant_id": "full", "judged": True, "expected_fail": []}
        schema = Variants.create_empty().schema
        variants = Variants.validate(
            pl.DataFrame([row], strict=False).select(list(schema)), cast=True
        )
        return variants.join(
            pl.DataFrame(
                {
                    "lane_id": list(lanes),
                    "observational": [observational] * len(lanes),
                    "packet_source_lane_id": [None] * len(lanes),
                },
                schema={
                    "lane_id": pl.Int64,
                    "observational": pl.Boolean,
                    "packet_source_lane_id": pl.Int64,
                },
            ),
            how="cross",
        )

    return build


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    """The lexicon that a user gets."""
    from harness.lexicons import load_lexicon

    return load_lexicon(CONF / "lexicon")


@pytest.fixture(scope="session")
def wording() -> Wording:
    """The wording that a user gets."""
    loaded = OmegaConf.to_container(OmegaConf.load(CONF / "wording.yaml"))
    assert isinstance(loaded, dict)
    return Wording.from_mapping({str(key): value for key, value in loaded.items()})


@pytest.fixture
def library(lexicon: Lexicon) -> Library:
    """A library with the tiny embedder."""
    return Library(HashingEmbedder(dimensions=256, max_characters=2000).embed, lexicon)


@pytest.fixture
def plane(lexicon: Lexicon) -> Plane:
    """A library of texts, each of them a unit vector at a given angle (degrees): the similarity of
    two texts is the cosine of the difference of their angles."""

    def build(angles: Mapping[str, float]) -> Library:
        def embed(texts: Sequence[str]) -> np.ndarray:
            radians = np.radians([angles[text] for text in texts])
            return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)

        library = Library(embed, lexicon)
        library.add(texts_frame(angles))
        return library

    return build
