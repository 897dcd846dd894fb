"""Many scenarios over one compiled game, each solved to the bit as if it were alone."""

import numpy as np

from ballast_cfr import Batch, compile, load

game = load("leduc")
batch = Batch(compile(game), 4, "CFRPlus", threads=2)
batch.set_payoffs(np.stack([game.payoff[:, 0] + ante for ante in (0.0, 0.1, 0.2, 0.3)]))
batch.step(300)
for value, exploitability in zip(batch.value(), batch.exploitability(), strict=True):
    print(f"value {value:+.4f}, exploitability {exploitability:.4f}")
