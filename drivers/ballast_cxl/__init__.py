"""Composable CXL memory: from an appliance's blocks to a device in a pod, never twice and never dirty.

ledger      who holds which block: pure rules, and the compare-and-swap that makes them binding
placement   which blocks a new region gets
fabric      the appliance, behind one small interface; `emulator` is an appliance to test against
controller  regions, attachments, quotas and leaks, on the operator's core; `slices` is what it offers the scheduler
node        the kubelet's side on every node: claims, device files, overwriting with zeros

A contributor starts with `ledger/book.py`, which is the whole promise on two screens.
"""
