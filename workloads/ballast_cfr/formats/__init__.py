"""Files: Gambit .efg in and out, checkpoints."""
