"""The node plugin: what kubelet calls when a pod wants a region, and what keeps the node's side of the fabric right.

`process` starts everything. A call from kubelet goes `services` (gRPC) -> `prepare` -> `claims` (what the claim asks
for), `judge` (whether the ledger allows it), `attachments` (the wish to the controller, and its answer) -> the host ->
the CDI file. `checkpoint` is the only memory between calls: two plugins of a rolling update share it, and either may
get any call. `keeper` brings devices to what attachments say, whatever happened; `liveness` tells the controller that
this node still can.
"""
