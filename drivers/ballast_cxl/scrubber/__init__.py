"""Wiping a region before anybody else gets it: zeros over every byte, pushed out of the caches, then read back.

`scrub` does the passes; `memory` maps a device piece by piece (device-dax has no read and no write); `flush.c` holds the
three loops that Python cannot write: stores past the caches, write-back of cache lines, and a compare that stops at the
first byte that is not zero.
"""
