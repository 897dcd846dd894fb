"""What can be said of the kernels without a GPU: they compile, and the struct they take is the one we fill in."""

import re
from importlib.util import find_spec

import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.errors import BadInputError, DeviceError
from ballast_cfr.games import builtin
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.engine import lay_out, source
from ballast_cfr.gpu.layout import FIXED, ITEM, ROW
from ballast_cfr.gpu.shape import Shape, candidates, macros
from ballast_cfr.gpu.state import ARRAYS, PROBLEM
from ballast_cfr.solve.kernels import ROW_CHUNK
from ballast_cfr.solve.solver import Solver

MEMORY = (gpu.KERNELS / "memory.cu").read_text()


def struct(name: str) -> list[str]:
    """The members of a struct, in order."""
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", MEMORY, re.S)
    assert body is not None
    lines = re.sub(r"//.*", "", body.group(1))
    return [
        re.sub(r"\[\d+\]|\W", "", word)
        for line in lines.split(";")
        for word in re.sub(r"^\s*(const )?\w+\*? ?", "", line.strip()).split(",")
        if word.strip()
    ]


def test_the_argument_of_the_kernel_has_the_members_we_fill_in() -> None:
    assert struct("Arrays") == list(ARRAYS.names or ())
    assert struct("Problem") == list(PROBLEM.names or ())


def test_descriptor_items_and_rows_have_the_sizes_of_the_kernel() -> None:
    names = re.search(r"enum \{(.*?)LEVEL0 \}", MEMORY, re.S)
    assert names is not None
    assert names.group(1).count(",") == FIXED
    assert (ITEM.itemsize, ROW.itemsize) == (16, 8)
    assert f"#define ROW_CHUNK {ROW_CHUNK}" in (gpu.KERNELS / "stages.cu").read_text()


@pytest.mark.skipif(not find_spec("cuda"), reason="cuda-bindings is not installed")
@pytest.mark.parametrize(
    "shape", [Shape("one", 1, 64), Shape("cluster", 8, 64, push=True), Shape("grid", 7, 64)], ids=str
)
def test_the_kernels_compile_for_every_regime(shape: Shape, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = compile_game(builtin("leduc", {"ranks": 2}))
    defined, _ = macros(lay_out(program, shape), shape, True)
    try:
        binary = gpu.compile_source(source(), {**defined, "POISON": 1}, "sm_90")
    except RuntimeError as error:  # the bindings are there, the compiler's library is not
        pytest.skip(f"NVRTC is not installed: {error}")
    assert binary.startswith(b"\x7fELF")
    assert gpu.compile_source(source(), {**defined, "POISON": 1}, "sm_90") == binary


def test_no_sum_is_fused_or_atomic() -> None:
    text = source()
    assert "atomicAdd" not in text
    assert "fma(" not in text
    assert "red.release.gpu.global.add.u32" in text  # the barriers' counters, which are integers


@pytest.mark.parametrize(("slots", "entries"), [(24, 60), (2_184, 9_840), (49_140, 294_840), (962_948, 395_920)])
def test_every_size_has_shapes_to_try(slots: int, entries: int) -> None:
    assert candidates(slots, entries, 132, 16)


def test_a_machine_without_a_gpu_says_so_and_auto_takes_the_cpu() -> None:
    try:
        gpu.device()
    except DeviceError as error:
        assert "choose --device cpu" in str(error)
    else:
        pytest.skip("this machine has a GPU")
    program = compile_game(builtin("leduc"))
    with pytest.raises(DeviceError, match="device cuda"):
        Solver(program, device="cuda")
    solver, plain = Solver(program, device="auto"), Solver(program)
    solver.step(5)
    plain.step(5)
    assert solver.average()[0].tobytes() == plain.average()[0].tobytes()


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(BadInputError, match="device tpu is unknown; choose one of cpu, cuda, auto"):
        Solver(compile_game(builtin("kuhn")), device="tpu")


def test_the_tree_form_stays_on_the_cpu() -> None:
    with pytest.raises(BadInputError, match="tree form, which runs on the CPU only"):
        lay_out(compile_game(builtin("kuhn"), "tree"), Shape("one", 1, 64))
