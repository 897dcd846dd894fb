"""The solver on an NVIDIA GPU: many iterations in one launch, with the bits of the CPU's kernels.

`plan.py` divides a game among blocks, `layout.py` lays it out for them, `kernels/` is what they run, `device.py` talks
to the driver, `engine.py` is what `Solver` sees. `choose.py` decides between this and the CPU.
"""
