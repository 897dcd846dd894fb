"""Games that the solver generates itself, by name and parameters."""

from ballast_cfr.games.registry import BUILTINS, builtin

__all__ = ["BUILTINS", "builtin"]
