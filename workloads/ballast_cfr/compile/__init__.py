"""From a game tree to flat arrays: recall, sequences, payoffs."""
