"""A logits processor that makes an engine say the recorded answer, token by token.

Without it the engine's own tokens are thrown away and the recorded ones stand in the next prompt, which is the same in
every arm too; but the KV of an answer would then never be hit again, as it is in real conversations.
vLLM, for the sake of processors that read what was said, waits for the step before to end before it applies any: no
step is then scheduled while another runs. This one only counts, so it has the engine wait for nothing.
The request says which answer: `extra_args={"replay_seed": ..., "replay_length": ..., "replay_vocabulary": ...}`
(`vllm_xargs` over HTTP). Requests that say nothing are left alone.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality

from ballast_vamp.replay.trace import answer


class Forced(LogitsProcessor):  # type: ignore[misc] # vLLM is not there where types are checked
    """Keeps, for each row of the batch that replays, the answer and vLLM's own list of what it has said so far."""

    def __init__(self, _config: Any, device: torch.device, pinned: bool) -> None:
        self.device, self.pinned = device, pinned
        self.rows: dict[int, tuple[list[int], list[int]]] = {}
        self._count_only()

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        for row in batch_update.removed:
            self.rows.pop(row, None)
        for row, parameters, _, said in batch_update.added:
            self.rows.pop(row, None)
            asked = parameters.extra_args or {}
            if "replay_seed" in asked:
                length, vocabulary = int(asked["replay_length"]), int(asked["replay_vocabulary"])
                self.rows[row] = (answer(int(asked["replay_seed"]), length, vocabulary), said)
        for one, other, direction in batch_update.moved:
            moved, back = self.rows.pop(one, None), self.rows.pop(other, None)
            if moved is not None:
                self.rows[other] = moved
            if back is not None and direction == MoveDirectionality.SWAP:
                self.rows[one] = back

    @staticmethod
    def _count_only() -> None:
        """Leave placeholders in the lists of what was said: a list is as long with them."""
        from vllm.v1.worker.gpu_input_batch import InputBatch

        InputBatch.update_async_output_token_ids = lambda _: None

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """logits (rows, vocabulary). A row that has said all of its answer already is past its end, and left alone."""
        due = [(row, answered[len(said)]) for row, (answered, said) in self.rows.items() if len(said) < len(answered)]
        if not due:
            return logits
        asked = torch.tensor(due, dtype=torch.long, pin_memory=self.pinned)
        rows, tokens = asked.to(self.device, non_blocking=True).unbind(1)
        logits[rows] = float("-inf")
        logits[rows, tokens] = 0.0
        return logits
