"""CFR+ as a stream of generic tensor operations, eager or captured once in a CUDA graph: what the fused kernels are
measured against. Sums go through atomics, so its bits differ from run to run; nothing else uses it.
"""

import time
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program


class Generic:
    """Alternating CFR+ with PyTorch on the GPU, weights t. graph: replay a captured iteration instead of launching its
    operations one by one."""

    def __init__(self, program: Program, graph: bool) -> None:
        import torch

        self.torch: Any = torch
        self.players = [self._player(program, player) for player in (0, 1)]
        self.weight = torch.zeros((), dtype=torch.float64, device="cuda")
        self.operations = 0
        self.graph: Any = None
        if graph:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.iterate()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.iterate()

    def _player(self, program: Program, player: int) -> dict[str, Any]:
        torch, plex = self.torch, program.plex[player]
        assert program.matrix is not None
        csr = program.matrix[player]

        def index(array: Any) -> Any:
            return torch.as_tensor(np.asarray(array, dtype=np.int64), device="cuda")

        of_slot, first = plex.of_slot, plex.first.astype(np.int64)
        uniform = torch.as_tensor(1.0 / np.diff(plex.first)[of_slot], device="cuda")
        levels = []
        for start, stop in plex.levels():
            slots = slice(int(first[start]), int(first[stop]))
            levels.append((start, stop, slots, index(of_slot[slots] - start), index(plex.parent[start:stop])))
        zeros = torch.zeros(plex.slots, dtype=torch.float64, device="cuda")
        x = torch.ones(plex.slots + 1, dtype=torch.float64, device="cuda")
        made = {
            "row": index(np.repeat(np.arange(plex.slots + 1), np.diff(csr.start))),
            "column": index(csr.column), "value": torch.as_tensor(csr.value, device="cuda"), "levels": levels,
            "of_slot": index(of_slot), "above": index(plex.parent[of_slot]), "uniform": uniform,
            "regret": zeros.clone(), "average": zeros.clone(), "sigma": uniform.clone(), "x": x,
            "g": torch.zeros_like(x), "r": zeros.clone(), "tot": zeros.new_zeros(plex.infosets),
        }  # fmt: skip
        self._realise(made)
        return made

    def _realise(self, p: dict[str, Any]) -> None:
        for _, _, slots, segment, parent in p["levels"]:
            p["x"][1 + slots.start : 1 + slots.stop] = p["x"][parent][segment] * p["sigma"][slots]

    def iterate(self) -> None:
        """One iteration, operation by operation."""
        torch = self.torch
        self.weight.add_(1.0)
        for me, other in ((0, 1), (1, 0)):
            p, y = self.players[me], self.players[other]["x"]
            g = p["g"].zero_()
            g.index_add_(0, p["row"], p["value"] * y[p["column"]])
            for start, stop, slots, segment, parent in reversed(p["levels"]):
                here = g[1 + slots.start : 1 + slots.stop]
                v = torch.zeros(stop - start, dtype=torch.float64, device="cuda")
                v.index_add_(0, segment, p["sigma"][slots] * here)
                p["r"][slots] = here - v[segment]
                g.index_add_(0, parent, v)
            p["regret"].add_(p["r"]).clamp_(min=0.0)
            total = p["tot"].zero_().index_add_(0, p["of_slot"], p["regret"])[p["of_slot"]]
            torch.where(total > 0, p["regret"] / total, p["uniform"], out=p["sigma"])
            p["average"].add_(self.weight * p["x"][1:])
            self._realise(p)

    def block(self, iterations: int) -> tuple[float, float]:
        """Run a block, to its end on the GPU; wall and CPU milliseconds for one iteration."""
        self.torch.cuda.synchronize()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(iterations):
            if self.graph is None:
                self.iterate()
            else:
                self.graph.replay()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - wall) * 1e3 / iterations, (time.process_time() - cpu) * 1e3 / iterations
