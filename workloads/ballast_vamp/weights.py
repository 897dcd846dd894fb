"""What vLLM does to the weights of a running worker besides reading them: written anew, and saved.

A copy on the host was made of weights that never change. Where they do, a copy of a unit at home is worth nothing from
then on; a unit on the host is written where it is, since its addresses are the same. And only experts that lie in the
model's own order can be written or saved by somebody who does not know another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ballast_vamp.rank import Rank

if TYPE_CHECKING:
    from typing import Any as _Base
else:
    _Base = object


class Weights(_Base):  # type: ignore[misc]
    """Mixed into vLLM's worker classes, before them. Each method raises RuntimeError where experts were reordered."""

    _vamp: Rank | None = None

    def reload_weights(self, *arguments: Any, **options: Any) -> Any:
        with self._vamp_written_anew("reload_weights"):
            return super().reload_weights(*arguments, **options)

    def start_weight_update(self, *arguments: Any, **options: Any) -> Any:
        with self._vamp_written_anew("start_weight_update"):
            return super().start_weight_update(*arguments, **options)

    def update_weights(self, *arguments: Any, **options: Any) -> Any:
        with self._vamp_written_anew("update_weights"):
            return super().update_weights(*arguments, **options)

    def finish_weight_update(self, *arguments: Any, **options: Any) -> Any:
        with self._vamp_written_anew("finish_weight_update"):
            return super().finish_weight_update(*arguments, **options)

    def save_sharded_state(self, *arguments: Any, **options: Any) -> Any:
        self._vamp_require_order("save_sharded_state")
        return super().save_sharded_state(*arguments, **options)

    def save_tensorized_model(self, *arguments: Any, **options: Any) -> Any:
        self._vamp_require_order("save_tensorized_model")
        return super().save_tensorized_model(*arguments, **options)

    def vamp_forget_copies(self) -> None:
        """Weights were written anew."""
        if self._vamp is not None:
            self._vamp.forget_copies()

    @contextmanager
    def _vamp_written_anew(self, call: str) -> Iterator[None]:
        self._vamp_require_order(call)
        try:
            yield
        finally:  # a part may have been written
            self.vamp_forget_copies()

    def _vamp_require_order(self, call: str) -> None:
        order = getattr(self, "_vamp_order", None)
        if order is not None and bool((order != np.arange(order.shape[1])).any()):
            raise RuntimeError(
                f"{call}: experts of this engine lie coldest last, as VAMP_PROFILE says, and whoever calls it knows "
                "only the model's own order; start the engine without VAMP_PROFILE"
            )
