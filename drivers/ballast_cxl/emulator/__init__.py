"""An appliance to test against: an HTTP service with CFM's and Redfish's paths, and memory that hosts really see.

layout.py      blades, ports and switches, from the command line
state.py       what the appliance knows, as the sum of its log; the log is also the judge's evidence
appliance.py   the verbs, with their checks and their traps
faults.py      what goes wrong on demand, and dying between two steps
backends.py    regions as files that appear at ports: plain, through loop devices, or plugged into QEMU guests
cfm.py, redfish.py   the two APIs; service.py puts them together
judge.py       what a log proves: overlaps, refusals, composes, what is left
"""
