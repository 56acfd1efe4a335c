"""Everything that touches the world: families, agents, verifiers, importers, the store, the CLI."""

import os

# Lance tells on stderr of every partition of an index that came out empty.
os.environ.setdefault("LANCE_LOG", "error")
