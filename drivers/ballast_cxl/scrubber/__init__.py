"""Wiping a region before anybody else gets it: zeros over every byte, pushed out of the caches, then read back.

`scrub` does the passes, in a process of its own (`process`); `memory` maps a device piece by piece (device-dax has no
read and no write); `flush.c` holds what Python cannot write: stores past the caches, write-back of cache lines, and a
compare that stops at the first byte that is not zero.
"""
