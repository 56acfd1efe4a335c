"""The lexicon's files, read."""

from pathlib import Path

import yaml

from harness.errors import ConfigurationError
from memos_flow.lexicon import Lexicon, LexiconError


def load_lexicon(folder: Path) -> Lexicon:
    """The lexicon of the YAML files in `folder`; ConfigurationError names folder and key."""
    try:
        return Lexicon.from_mapping(
            {
                path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
                for path in sorted(folder.glob("*.yaml"))
            }
        )
    except (LexiconError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{folder}: {error}") from error
