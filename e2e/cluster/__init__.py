"""A real Kubernetes on one Linux machine, without Docker and without an image registry.

`python -m e2e.cluster up` builds etcd, Kubernetes and containerd from Go modules once, then starts a control plane and
two nodes; each node is a set of namespaces (mounts, network, processes, host name) with its own kubelet, containerd
and kube-proxy. `e2e.cluster.api` is what tests use. The path of one `up`:

    preflight -> build -> images -> host, layout -> pki -> network -> control_plane -> node -> addons

docs/development-cluster.md explains it to people.
"""
