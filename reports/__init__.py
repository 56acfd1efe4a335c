"""Metrics over the tables of a run, and their rendering. Reads tables, never runs a stage."""
