"""Everything that touches the world: families, agents, verifiers, importers, the store, the CLI."""
