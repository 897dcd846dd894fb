"""Words of real vLLM runs (0.26 and 0.32), and what a person should read instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ballast_serving import arguments, message
from ballast_serving.failures import explain
from ballast_serving.message import Failure, Reason

CASES = [
    (
        ["usage: vllm serve [model_tag] [options]", "vllm: error: unrecognized arguments: --no-such-flag=1"],
        2,
        Reason.INVALID_ENGINE_ARGS,
        "unrecognized arguments: --no-such-flag=1",
    ),
    (
        [
            "(EngineCore_DP0 pid=77) ERROR 11-29 12:00:00 [core.py:1100] EngineCore failed to start.",
            "(EngineCore_DP0 pid=77) ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ],
        1,
        Reason.OUT_OF_MEMORY,
        "No available memory for the cache blocks",
    ),
    (
        ["OSError: Can't load the configuration of 'no/such'. If you were trying to load it from the Hub, ..."],
        1,
        Reason.MODEL_NOT_FOUND,
        "Can't load the configuration of 'no/such'",
    ),
    (
        [
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
            "  Value error, User-specified max_model_len (999999) is greater than the derived max_model_len [type=value_error]",
        ],
        1,
        Reason.INVALID_ENGINE_ARGS,
        "User-specified max_model_len (999999) is greater",
    ),
    (["INFO 11-29 starting", "RuntimeError: something new"], 1, Reason.ENGINE_FAILED, "RuntimeError: something new"),
    (
        [
            "(EngineCore pid=25) ERROR 11-30 13:33:24 [core.py:1512] RuntimeError: Worker failed with error 'InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')",
            "(APIServer pid=7) ERROR 11-30 13:33:24 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        ],
        0,
        Reason.ENGINE_FAILED,
        "Worker failed with error 'InvalidCxxCompiler",
    ),
    (["INFO 11-29 starting"], -9, Reason.ENGINE_FAILED, "ended by signal 9"),
    ([], 1, Reason.ENGINE_FAILED, "it said nothing"),
]


@pytest.mark.parametrize(("lines", "status", "reason", "said"), CASES)
def test_the_cause_is_found_in_what_vllm_said(lines: list[str], status: int, reason: Reason, said: str) -> None:
    failure = explain(lines, status)
    assert failure.reason is reason
    assert said in failure.message
    assert "\n" not in failure.message


@pytest.mark.parametrize("flag", ["--port=1", "--api_key=x", "--served-model-name=other", "--shutdown-timeout=9"])
def test_flags_of_the_pod_itself_are_refused_by_name(flag: str) -> None:
    with pytest.raises(Failure, match="is set by the pod itself"):
        arguments.refuse_ours([flag])


def test_a_word_that_is_no_flag_is_refused() -> None:
    with pytest.raises(Failure, match="not of the form --name=value"):
        arguments.refuse_ours(["; rm -rf /"])


def test_last_words_fit_what_the_kubelet_keeps(tmp_path: Path) -> None:
    log = tmp_path / "log"
    message.write(log, Failure(Reason.ENGINE_FAILED, "ä" * 9000))
    assert len(log.read_bytes()) <= message.LONGEST
    assert json.loads(log.read_text())["reason"] == "EngineFailed"
