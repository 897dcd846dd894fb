"""Who holds which block of which blade.

book.py    the rules, as pure functions from one ledger to the next
store.py   the compare-and-swap on CXLBlade objects that makes a change binding
quota.py   the same for what a namespace may hold
"""
