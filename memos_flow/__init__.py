"""The memory: schemas and pure transforms over tables. No I/O, no clock, no randomness."""
