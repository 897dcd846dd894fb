"""After a scrub every byte is zero as the device has it; anything else is told, and a stop at any byte is harmless."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_cxl.host import Device, HostError
from ballast_cxl.scrubber import memory, scrub
from ballast_cxl.scrubber.memory import DeviceMemory, FileMemory
from ballast_cxl.scrubber.process import scrub_apart
from ballast_cxl.scrubber.scrub import Memory, Result

SIZE = 3 << 20


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "WINDOW", 1 << 20)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`flush.c` as the image has it; built here, so that the test needs a C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    target = tmp_path_factory.mktemp("flush") / "libflush.so"
    source = Path(memory.__file__).with_name("flush.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", target, source], check=True)
    return target


@pytest.fixture(params=["file", "device"])
def region(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Memory]:
    """A region full of somebody's bytes, reached both ways: a file can be mapped like a device."""
    path = tmp_path / "region"
    path.write_bytes(b"\xa5" * SIZE)
    if request.param == "file":
        return path, FileMemory(Device(str(path), SIZE))
    monkeypatch.setattr(memory, "LIBRARY", request.getfixturevalue("compiled"))
    memory.library.cache_clear()
    return path, DeviceMemory(Device(str(path), SIZE, (252, 0)), memory.library())


def test_a_region_full_of_bytes_is_zero_afterwards(region: tuple[Path, Memory]) -> None:
    path, found = region
    assert scrub.scrub(found) == Result(SIZE, SIZE)
    assert path.read_bytes() == bytes(SIZE)


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, SIZE - 1))
def test_any_single_byte_is_found(tmp_path_factory: pytest.TempPathFactory, compiled: Path, at: int) -> None:
    path = tmp_path_factory.mktemp("byte") / "region"
    path.write_bytes(bytes(at) + b"\x01" + bytes(SIZE - at - 1))
    memory.LIBRARY = compiled
    memory.library.cache_clear()
    for found in (FileMemory(Device(str(path), SIZE)), DeviceMemory(Device(str(path), SIZE, (1, 1)), memory.library())):
        assert found.first_nonzero(0, SIZE) == at
        assert found.first_nonzero(0, SIZE // 3) == (at if at < SIZE // 3 else None)


class LateWriteBack(FileMemory):
    """A host that was not detached writes an old line back after the zeros went by."""

    def zero(self, offset: int, size: int) -> None:
        super().zero(offset, size)
        if offset + size == self.size:
            with Path(self._device.path).open("r+b") as file:
                file.seek(12345)
                file.write(b"old")


def test_a_late_write_back_is_seen_and_told(tmp_path: Path) -> None:
    path = tmp_path / "region"
    path.write_bytes(b"\xa5" * SIZE)
    result = scrub.scrub(LateWriteBack(Device(str(path), SIZE)))
    assert result == Result(SIZE, 12345, f"byte 12345 of {SIZE} is not zero after the scrub")


async def test_a_process_of_its_own_wipes_and_reports(tmp_path: Path) -> None:
    path = tmp_path / "region"
    path.write_bytes(b"\xa5" * SIZE)
    assert await scrub_apart(Device(str(path), SIZE)) == Result(SIZE, SIZE)
    assert path.read_bytes() == bytes(SIZE)


async def begun(path: Path, size: int) -> "asyncio.Task[Result]":
    """A scrub of a sparse file, that has written something by now."""
    with path.open("wb") as file:
        file.truncate(size)
    task = asyncio.create_task(scrub_apart(Device(str(path), size)))
    while path.stat().st_blocks == 0 and not task.done():
        await asyncio.sleep(0.005)
    return task


async def test_a_device_that_is_pulled_out_kills_the_scrub_and_not_the_plugin(tmp_path: Path) -> None:
    path = tmp_path / "region"
    task = await begun(path, 1 << 30)
    os.truncate(path, 4096)  # who touches the rest gets SIGBUS, as with a device that is gone
    with pytest.raises(HostError, match=f"the scrub of {path} ended with (-7|1: ValueError)"):
        await task


async def test_a_stopped_scrub_has_stopped(tmp_path: Path) -> None:
    path = tmp_path / "region"
    task = await begun(path, 1 << 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    written = path.stat().st_blocks
    await asyncio.sleep(0.2)
    assert path.stat().st_blocks == written


def test_an_image_without_the_library_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "LIBRARY", tmp_path / "libflush.so")
    memory.library.cache_clear()
    with pytest.raises(HostError, match="is missing; build it with `cc -O2"):
        memory.memory_of(Device("/dev/dax0.0", SIZE, (252, 0)))


def test_an_empty_region_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="a region of 0 bytes"):
        scrub.scrub(FileMemory(Device(str(tmp_path / "x"), 0)))
