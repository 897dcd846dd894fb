"""The operator: from what a user applied to what the cluster runs, and back as conditions.

An event carries only a key. `queue` hands keys to workers, `reconciler` brings one object to what its spec says,
`desired` builds the objects it should own (pure), `observe` reads how they are (pure), and `cluster` does all input
and output. `kinds` is the table of what is reconciled; `app` wires kopf's watches to the queue. The core (`queue`,
`reconciler`, `cluster`, `objects`, `resources`) knows no kind, so that other controllers can stand on it.
A contributor starts with `reconciler.py`, which is the whole loop on one screen.
"""
