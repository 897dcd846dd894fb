"""Flows on a real cluster, one promise a test. `kube` is a namespace of the test's own, in which the operator works."""
