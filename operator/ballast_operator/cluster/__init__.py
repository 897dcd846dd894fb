"""The only input and output of the operator: the API server, and the status ports of our own pods.

`client` speaks HTTP, `cache` holds what the watches said, `apply` and `prune` change the cluster, `recorder` tells
people, `lease` decides who may write. Nothing here knows a kind of ours.
"""
