"""What the scheduler is offered, as ResourceSlices.

devices.py   a blade and its regions to devices (pure)
pools.py     devices to the writes that bring the stored slices there, by the rules of pool generations (pure)
publish.py   the one process that does the writes
gates.py     whether the API server keeps the fields that all this needs
"""
