"""The engine for a device: one CPU thread, or an NVIDIA GPU."""

from typing import TYPE_CHECKING

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError

if TYPE_CHECKING:
    from ballast_cfr.gpu.engine import CudaEngine
    from ballast_cfr.solve.engine import Engine

DEVICES = ("cpu", "cuda", "auto")


def device(name: str) -> str:
    """Look a device up by any case. Raises BadInputError for what it does not know."""
    if name.lower() not in DEVICES:
        raise BadInputError(f"device {name} is unknown; choose one of {', '.join(DEVICES)}")
    return name.lower()


def engine_for(
    program: Program, predict: float, alternating: bool, tie_tol: float, mixed: bool, device: str
) -> "Engine | CudaEngine":
    """Raises DeviceError if the device is not there, BadInputError if the game does not fit it."""
    if device != "cpu":
        from ballast_cfr.gpu import choose
        from ballast_cfr.gpu.engine import CudaEngine

        measured = choose.best_shape if device == "cuda" else choose.pick
        shape = measured(program, alternating, mixed)
        if shape is not None:
            return CudaEngine(program, predict, alternating, tie_tol, shape)
    from ballast_cfr.solve.engine import Engine

    return Engine(program, predict, alternating, tie_tol, mixed)
