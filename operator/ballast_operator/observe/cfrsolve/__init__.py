"""The status of a CFRSolve: what stands in its way, how far it is, or how it ended."""

from ballast_operator.observe.cfrsolve.probe import needs, probe, silent
from ballast_operator.observe.cfrsolve.status import observe

__all__ = ["needs", "observe", "probe", "silent"]
