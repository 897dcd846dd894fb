"""Compiling the inner loops once, and finding them again in every later process.

Numba's own cache refuses a folder that it cannot write, and compiles anew for every model of CPU. A pod's image is
read-only and may land on any node, so here (1) a cache that can only be read is used as it is, (2) code is made for
the baseline of the architecture (strict sums neither vectorise nor fuse, so nothing is lost), and (3) an entry is
valid as long as the kernels' own text is unchanged. That text is compared by digest: layers and archives change
modification times.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching
from numba.core import config as _config

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent

config: Any = _config  # its members are made at run time, from the environment

if "NUMBA_CPU_NAME" not in os.environ:
    config.CPU_NAME = "generic"


def cache_directory() -> Path:
    """NUMBA_CACHE_DIR if set, else a folder of the user's cache."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ballast" / "numba"


class _Locator(caching._CacheLocator):
    """Where a kernel's code is kept, and what it must match."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.line = function.__code__.co_firstlineno
        self._py_file = function.__code__.co_filename

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], _: str) -> "_Locator":
        return cls(py_func)

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(cache_directory() / "ballast_cfr")

    def get_source_stamp(self) -> str:
        text = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*kernels.py")))
        return hashlib.sha256(text).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Code(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [_Locator]  # noqa: RUF012 - the base class does not say ClassVar


class _Cache(caching.FunctionCache):
    _impl_class = _Code

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError:  # a read-only or missing cache only costs time
            return


def kernel(function: F) -> F:
    """Compile a function on first use: no interpreter lock, no fast-math, sums in the order they are written."""
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    cache: Any = _Cache
    compiled._cache = cache(function)
    kept: F = compiled
    return kept
