"""How a serving is going: what its pods and autoscalers say, put into conditions, counts and decisions."""

from ballast_operator.observe.moeserving.ask import around, needs, probes, silent
from ballast_operator.observe.moeserving.status import observe

__all__ = ["around", "needs", "observe", "probes", "silent"]
