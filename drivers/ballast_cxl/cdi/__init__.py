"""The Container Device Interface: files that tell a container runtime what a claim's device is.

One file a claim, in the runtime's folder. `edits` says what a container gets, `rules` what the specification asks of a
file, `store` writes, lists and removes files. Nothing here needs more than the standard library: the same code runs in
the small guests of the QEMU lane.
Specification: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md, 1.1.0.
"""

KIND = "ballast.dev/cxl"
"""Kind of every device of ours; a device's full name is `ballast.dev/cxl=NAME`."""
