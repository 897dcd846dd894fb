"""Real CXL and DAX drivers: two emulated machines with CXL type-3 memory, run by QEMU without hardware virtualisation.

`image` builds what the machines boot from Debian packages, once; `machine` starts one and talks to it; `agent.py` runs
in it, on the node side's own code; `test_lane.py` is the story. `make qemu` runs it.
"""
