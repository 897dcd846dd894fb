"""The region controller: one process that talks to appliances, on the operator's core.

core.py         which part looks after which object
world.py        what all parts share: ledgers, appliances, nodes, the clock
regions.py      a CXLRegion from asked for to ready;  release.py  and back to free blocks;  status.py  how it stands
attachments.py  a CXLAttachment: a node connected, cut off, fenced;  scrub.py  one that overwrites with zeros
claims.py       memory that was asked for by a claim alone
blades.py       a CXLBlade against its appliance: geometry, leaks, losses
quotas.py       sums against the ledgers;  liveness.py  which nodes still report
main.py         the process
"""
