"""What one part of the system says, and another has to understand, though neither imports the other."""

from typing import Any

from ballast_api.conditions import Reason
from ballast_operator.desired.moeserving import vamp
from ballast_operator.observe.moeserving import vllm
from ballast_operator.testing_serving import serving
from ballast_serving import message
from ballast_vamp.config import MIB, Config, Mode
from ballast_vamp.metrics import HELP, Metrics
from ballast_vamp.reasons import Reason as VampReason


def test_every_reason_of_a_pod_is_one_that_a_condition_may_give() -> None:
    known = {reason.value for reason in Reason}
    assert {reason.value for reason in VampReason} <= known
    assert {reason.value for reason in message.Reason} <= known


def settings(**spec: Any) -> Config:
    """What the plugin makes of the variables that the operator sets."""
    variables = vamp.environment(serving(vamp=spec))
    return Config.from_environment({each["name"]: each["value"] for each in variables})


def test_the_plugin_reads_what_the_operator_sets() -> None:
    found = settings(maxOffload="8Gi", hostMemory="12G", mode="DryRun", minResidentFraction="0.75", chunkSize="64Mi")
    assert found.enable
    assert (found.mode, found.min_resident_fraction) == (Mode.DRY_RUN, 0.75)
    assert (found.max_offload_bytes, found.host_bytes, found.chunk_bytes) == (8 << 30, 12 * 10**9, 64 * MIB)
    assert str(found.profile) == "/ballast/cache/vamp/team-a/qwen.json"


def test_the_plugins_defaults_are_those_of_the_api() -> None:
    found = settings(maxOffload="1Gi")
    plain = Config.from_environment({"VAMP_ENABLE": "1", "VAMP_MAX_OFFLOAD_BYTES": str(1 << 30)})
    assert (found.mode, found.host_bytes) == (plain.mode, plain.host_bytes)
    assert (found.min_resident_fraction, found.chunk_bytes) == (plain.min_resident_fraction, plain.chunk_bytes)


def test_the_operator_reads_what_the_plugin_writes() -> None:
    metrics = Metrics()
    metrics.set("vamp:active", 0)
    metrics.set("vamp:degraded", 0)
    metrics.set("vamp:disabled_info", 1, reason="NoVmm", message='the driver says "no"')
    page = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
    page += "".join(f"{sample} {value}\n" for sample, value in metrics.snapshot().items())
    found = vllm.read(page.encode()).vamp
    assert found == vllm.VampState(reason="NoVmm", message='the driver says "no"')
    assert {"vamp:active", "vamp:degraded", "vamp:disabled_info"} <= HELP.keys()
