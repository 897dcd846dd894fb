"""VAMP: how much of a model's experts may make room for the KV cache, and where their copies lie meanwhile."""

from enum import StrEnum

from ballast_api.base import Model, Rule, field
from ballast_api.meta import ConfigMapKeyRef, Size

# What the plugin sets itself, and what it cannot work beside.
ENGINE_ARGUMENTS = (
    "cpu-offload-gb",
    "enable-eplb",
    "enable-sleep-mode",
    "num-gpu-blocks-override",
    "offload-backend",
    "scheduler-cls",
    "worker-cls",
)
FRACTION = r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$"


class VampMode(StrEnum):
    """Whether memory is moved, or only what would be moved is told."""

    AUTO = "Auto"
    DRY_RUN = "DryRun"


class Vamp(Model):
    """Let memory of experts that are hardly used become KV cache while requests need it, and go back afterwards. Unset:
    it stays as the engine divides it at its start. Where it cannot work, the engine serves without it, and the
    condition VampDisabled says why. All sizes are for each device."""

    mode: VampMode = field(
        "Auto: memory moves when that is the cheapest way out. DryRun: decisions and what they would gain are metrics, "
        "and memory stays where it is.",
        default=VampMode.AUTO,
    )
    max_offload: Size = field("Weights of experts that may leave each device at most.", examples=["8Gi"])
    host_memory: Size | None = field(
        "Memory of the node for copies of experts, for each device; it is added to the memory that `resources` asks "
        "for. Unset: as much as maxOffload. More lets another set of experts leave without being copied first.",
        absent=None,
    )
    min_resident_fraction: str = field(
        "Share of the experts' weights that stays on the device in any case, as a decimal from 0 to 1 in quotes.",
        default="0.5",
        pattern=FRACTION,
        max_length=6,
    )
    chunk_size: Size = field(
        "Memory moved between two steps of the engine at most: the larger, the longer requests wait for one move.",
        default="256Mi",
    )
    profile_config_map_ref: ConfigMapKeyRef | None = field(
        "File of a ConfigMap that says which experts are used how much, as the engine wrote it earlier. It is what an "
        "engine begins with that finds none in its cache. Unset: an engine with an empty cache learns it anew.",
        absent=None,
    )


# On the spec, since a rule on an optional member sees neither the engine nor the pod.
RULES = (
    Rule(
        "!has(self.vamp) || !has(self.engine) || !has(self.engine.extraArgs)"
        f" || !self.engine.extraArgs.exists(k, k in {list(ENGINE_ARGUMENTS)!r})",
        f"engine.extraArgs: {', '.join(ENGINE_ARGUMENTS)} do not go together with vamp; remove them, or vamp "
        "(kv-cache-memory-bytes sizes the cache)",
        ".engine.extraArgs",
    ),
    Rule(
        # The server tries rules on the default {} too, before it fills in the defaults of members.
        "!has(self.vamp) || !has(self.parallelism) || !has(self.parallelism.tensor)"
        " || self.parallelism.pipeline == 1 && !self.parallelism.expert",
        "vamp works where devices share each layer and each expert; set parallelism.pipeline to 1 and "
        "parallelism.expert to false, or remove vamp",
        ".vamp",
    ),
)
