"""Counterfactual regret minimisation for two-player zero-sum games."""
