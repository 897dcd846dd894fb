"""The one exception that people see: a sentence, without a traceback."""


class ClusterError(Exception):
    """What went wrong with the local cluster and the way out, in one sentence."""
