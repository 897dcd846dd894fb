"""Games and strategies as files: .cfrg for games, Parquet for a part of a large strategy."""

import sys
from pathlib import Path

from ballast_cfr import Solver, compile, load
from ballast_cfr.export.files import write_strategy
from ballast_cfr.export.strategy import Only, write_bytes
from ballast_cfr.formats import cfrg

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
write_bytes(folder / "goofspiel.cfrg", cfrg.write(load("goofspiel", cards=5)))
solver = Solver(compile(load(folder / "goofspiel.cfrg")), "PCFRPlus")
solver.step(200)
often = Only(player=0, min_reach=0.01)
write_strategy(folder / "often.parquet", "Parquet", solver.program, solver.average(), {"game": "goofspiel"}, often)
print(f"wrote {(folder / 'often.parquet').stat().st_size} bytes")
