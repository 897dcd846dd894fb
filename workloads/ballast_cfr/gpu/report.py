"""The page of measured tables, from files that `bench --device all --json FILE` wrote."""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Found = dict[str, Any]

_HEAD = """# CFR on one GPU

Alternating CFR+ on the sequence form, float64, in microseconds for one iteration: the 10th percentile of blocks of at
least 200 iterations (2,000 for the fused kernels), all solvers in turn in one run. *graph* and *eager* are our own
iteration in generic PyTorch operations, replayed from a captured CUDA graph or launched one by one. *CPU* is our
engine on one thread of the same machine. *noregret* is noregret's CUDA kernel on the same games. Raw rows and commands:
`cfr-gpu/`; this page: `python -m ballast_cfr.gpu.report cfr-gpu/*.json`.
"""

_FLOORS = """
## Against the limits of the machine

The floor is the larger of bytes over copy bandwidth and dependent stages times the cost of one barrier, in the cheapest
regime that could hold the game's state (one block, one cluster, the grid). Bytes: 24 for each entry of the payoff
matrix, 72 for each slot, 12 for each information set. Stages: 2 + 2 (levels of both players).
"""

_READING = """
What keeps the kernels above the floor, from variants with one stage left out each:

- Small games: a stage costs 0.3 us, not the 0.02 to 0.2 us of its barrier. Within it each warp waits for a chain of
  dependent work: an item, the values below, the products, an ordered sum (4.2 ns for each float64 addition), a
  division. Sums keep the order of the CPU's, so that bits are equal; none takes a large part alone.
- Middle games: blocks meet six times an iteration instead of once a stage, because a subtree belongs to one block. The
  trunk above the subtrees is one block's work while the others wait: a quarter to 40 % of the time.
- The large game: its state does not fit the blocks' shared memory whole, so the items (16 bytes a slot, read three
  times), the average and the plans go through the second-level cache.
"""


def page(report: Found) -> Iterator[str]:
    """The page, line by line."""
    yield _HEAD
    yield from _machine(report)
    yield "\n## Times\n"
    yield from _times(report["table"])
    yield _FLOORS
    yield from _limits(report["table"])
    yield _READING
    yield "## Bars\n"
    yield from _rows(("bar", "asked", "measured", "met"), [*_ratios(report["table"]), *_checks(report["checks"])])


def _machine(report: Found) -> Iterator[str]:
    machine, limits = report["machine"], report["limits"]
    barrier = limits["barrier"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    driver = "; ".join(machine["driver"].splitlines())  # one line for each GPU
    yield f"- {machine['gpu']}, driver and clocks {driver}; {machine['cores']} cores of {machine['cpu']}"
    yield f"- Python {machine['python']}, {versions}; {machine['date']}"
    yield f"- command: `{machine['command'].partition(' --json')[0]}`"
    yield (
        f"- measured in this run: a barrier takes {barrier['one']:.3f} us in a block, {barrier['cluster']:.3f} in a "
        f"cluster of 8, {barrier['grid']:.3f} on the grid; copies move {limits['cached']:.2f} TB/s within the cache, "
        f"{limits['memory']:.2f} beyond; dependent float64 additions are {limits['addition']:.2f} ns apart"
    )


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield "| " + " | ".join(row) + " |"


def _times(table: list[Found]) -> Iterator[str]:
    solvers = ("cuda-fused", "cuda-graph", "cuda-eager", "cpu-fused", "noregret")

    def cell(line: Found, solver: str) -> str:
        if solver not in line:
            return "-"
        return f"{line[solver]['p10']:.2f}" + (f" ({line[solver]['date']})" if "date" in line[solver] else "")

    def times(line: Found, solver: str) -> str:
        return f"{line['ratio'][solver]:.1f}" if solver in line else "-"

    rows = [
        (
            line["game"],
            f"{line['nodes']:,}",
            line["shape"],
            *(cell(line, solver) for solver in solvers),
            *(times(line, solver) for solver in solvers[1:]),
            "GPU" if line.get("ratio", {}).get("cpu-fused", 2) > 1 else "**CPU**",
        )
        for line in table
    ]
    names = ("fused", "graph", "eager", "CPU", "noregret")
    yield from _rows(("game", "nodes", "shape", *names, *(f"{name} / fused" for name in names[1:]), "faster"), rows)


def _limits(table: list[Found]) -> Iterator[str]:
    rows = [
        (
            line["game"],
            f"{line['bytes'] / 1e6:.2f}",
            f"{line['bandwidth_share']:.1%}",
            str(line["stages"]),
            *(f"{line['latency_floors'][regime]:.2f}" for regime in ("one", "cluster", "grid")),
            f"{line['floor']:.2f} ({line['floor_regime']})",
            f"{line['cuda-fused']['p10']:.2f}",
            f"{line['over_floor']:.1f}",
        )
        for line in table
    ]
    head = ("game", "MB", "of bandwidth", "stages", "one us", "cluster us", "grid us", "floor us", "fused us", "over")
    yield from _rows(head, rows)


def _bar(name: str, asked: str, measured: str, met: bool) -> tuple[str, ...]:
    return name, asked, measured, "yes" if met else "**no**"


def _ratios(table: list[Found]) -> list[tuple[str, ...]]:
    eager = [line["graph_over_eager"] for line in table]
    graph = [line["ratio"]["cuda-graph"] for line in table]
    peer = [line["ratio"]["noregret"] for line in table if "noregret" in line]
    bars = [
        _bar(
            "graph over eager",
            "5x median, 2x each",
            f"{statistics.median(eager):.1f}x, least {min(eager):.1f}x",
            statistics.median(eager) >= 5 and min(eager) >= 2,
        ),
        _bar(
            "fused over graph",
            "3x median",
            f"{statistics.median(graph):.1f}x, least {min(graph):.1f}x",
            statistics.median(graph) >= 3,
        ),
    ]
    if peer:
        bars.append(_bar("noregret's CUDA kernel over fused", "500x each", f"least {min(peer):.0f}x", min(peer) >= 500))
    return bars + [
        _bar(f"over the floor, {line['game']}", "2.0", f"{line['over_floor']:.1f}", line["over_floor"] <= 2)
        for line in table
    ]


def _checks(found: list[Found]) -> list[tuple[str, ...]]:
    return [_check(one) for one in found]


def _check(one: Found) -> tuple[str, ...]:
    name, game = one["check"], one["game"]
    if name == "bits":
        told = "equal" if one["equal"] and one["evaluation_equal"] else "different"
        asked = "equal"
        return _bar(f"{one['iterations']} iterations of {game}: CPU, GPU, GPU again", asked, told, told == asked)
    if name == "batch":
        rates = f"{one['ratio']:.0f}x ({one['alone_per_second']:.0f} and {one['batch_per_second']:.0f} solves/s)"
        label = f"{one['size']} solves of {game} at once over one after the other"
        return _bar(label, "50x, equal bits", rates, one["ratio"] >= 50 and one["equal"])
    if name == "mixed":
        return _mixed(one)
    if name == "resume":
        label = f"{one['iterations']} iterations of {game} on the GPU, with and without a checkpoint half way"
        told = "equal" if one["equal"] else "different"
        return _bar(label, "equal", told, one["equal"])
    if name == "gpus":
        label = f"{one['size']} solves of {game} on two GPUs over one"
        told = f"{one['ratio']:.2f}x ({one['seconds'][0] * 1e3:.1f} and {one['seconds'][1] * 1e3:.1f} ms)"
        return _bar(label, "1.8x, equal bits", told, one["ratio"] >= 1.8 and one["equal"])
    if name == "evaluation":
        return _bar(f"exploitability, {game}, in iterations", "2.0", f"{one['iterations']:.2f}", one["iterations"] <= 2)
    if name == "change":
        told = f"{one['share']:.2%} ({one['in_place_ms']:.2f} of {one['anew_ms']:.0f} ms)"
        label = f"payoffs and ranges in place over anew, {game}"
        return _bar(label, "1%, equal bits", told, one["share"] <= 0.01 and one["equal"])
    told = f"{one['over_best']:.2f} ({one['chose']})"
    return _bar(f"device auto over the better one, {game}", "1.10", told, one["over_best"] <= 1.1)


def _mixed(one: Found) -> tuple[str, ...]:
    """Mixed precision: bits and exploitability, and time where it was asked for."""
    equal = one["equal_to_cpu"] and one["evaluation_equal"]
    told = f"exploitability {one['exploitability_ratio']:.2f}, bits {'equal' if equal else 'different'}"
    asked, met = "exploitability 0.8-1.25, bits of the CPU", 0.8 <= one["exploitability_ratio"] <= 1.25 and equal
    if "time_ratio" in one:
        asked, told = f"time 0.75, {asked}", f"time {one['time_ratio']:.2f}, {told}"
        met = met and one["time_ratio"] <= 0.75
    return _bar(f"mixed over float64, {one['game']}", asked, told, met)


def joined(files: list[str]) -> Found:
    """One report of several: the table of the last that has one, the checks of all of them; of a check done twice, the
    later. Where noregret was measured in an earlier run only, its times stand beside the new ones, with their date."""
    reports = [json.loads(Path(name).read_text()) for name in files]
    tables = [found for found in reports if found["table"]]
    base = tables[-1]
    for before in tables[:-1]:
        known = {line["game"]: line for line in before["table"]}
        for line in base["table"]:
            old = known.get(line["game"], {}).get("noregret")
            if old is not None and "noregret" not in line:
                line["noregret"] = {**old, "date": before["machine"]["date"]}
                line["ratio"]["noregret"] = old["p10"] / line["cuda-fused"]["p10"]
    checks = {(one["check"], one["game"]): one for found in reports for one in found["checks"]}
    return {**base, "checks": list(checks.values())}


if __name__ == "__main__":
    print("\n".join(page(joined(sys.argv[1:]))))
