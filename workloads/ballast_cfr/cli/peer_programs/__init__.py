"""Programs that run another solver, each as a script in an environment of its own; nothing here is imported.

Argument: a game, in the peer's own terms. First line out: version, seconds to load the game and build the solver. Then
for each line in, a number of iterations: wall and CPU milliseconds for one of them.
"""
