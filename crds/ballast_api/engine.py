"""What an inference engine serves and how: the model's source, the engine's arguments, and its spread over devices."""

from enum import StrEnum
from typing import ClassVar

from ballast_api.base import Model, Rule, field
from ballast_api.meta import SecretKeyRef

# Arguments that are set from fields of their own, and those that say where the engine listens: the router, the probes
# and the network policy rely on them.
RESERVED = (
    "api-key",
    "config",
    "data-parallel-size",
    "download-dir",
    "dtype",
    "enable-expert-parallel",
    "headless",
    "host",
    "master-addr",
    "master-port",
    "max-model-len",
    "max-num-seqs",
    "model",
    "nnodes",
    "node-rank",
    "pipeline-parallel-size",
    "port",
    "revision",
    "root-path",
    "served-model-name",
    "shutdown-timeout",
    "ssl-certfile",
    "ssl-keyfile",
    "tensor-parallel-size",
    "uds",
)
REPOSITORY = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"


class BuiltinModelName(StrEnum):
    """Models that are part of the serving image."""

    TINY_QWEN3_MOE = "tiny-qwen3-moe"


class DType(StrEnum):
    """Number format of weights and activations."""

    AUTO = "Auto"
    BFLOAT16 = "BFloat16"
    FLOAT16 = "Float16"
    FLOAT32 = "Float32"


class HuggingFaceModel(Model):
    """A model of the Hugging Face hub; it is downloaded into the cache."""

    id: str = field(
        "Name of the model on the hub.", pattern=REPOSITORY, max_length=200, examples=["Qwen/Qwen3-30B-A3B"]
    )
    revision: str | None = field(
        "Branch, tag or commit. Unset: the newest of the main branch at each start of a pod.",
        absent=None,
        pattern="^[A-Za-z0-9][A-Za-z0-9._/-]*$",
        max_length=200,
    )
    token_secret_ref: SecretKeyRef | None = field(
        "Secret with a token for models that are not public. Its key is `token` if unset.", absent=None
    )


class ModelVolume(Model):
    """A model on a PersistentVolumeClaim of this namespace; it is mounted read-only."""

    rules: ClassVar = (
        Rule(
            r"!has(self.path) || !self.path.matches('^/|(^|/)\\.\\.(/|$)')",
            "path is relative to the root of the volume and stays on it; remove the leading slash and every '..'",
            ".path",
        ),
    )

    claim_name: str = field("Name of the PersistentVolumeClaim, in this namespace.", min_length=1, max_length=253)
    path: str | None = field(
        "Folder of the model on the volume, without a leading slash. Unset: the root of the volume.",
        absent=None,
        min_length=1,
        max_length=1024,
        examples=["models/qwen"],
    )


class ModelImage(Model):
    """A model in an OCI image or artifact, which the node mounts as a read-only volume (Kubernetes 1.35 or newer)."""

    rules: ClassVar = (
        Rule(
            r"!has(self.path) || !self.path.matches('^/|(^|/)\\.\\.(/|$)')",
            "path is relative to the root of the image and stays in it; remove the leading slash and every '..'",
            ".path",
        ),
    )

    reference: str = field("Image, with tag or digest.", min_length=1, max_length=512)
    path: str | None = field(
        "Folder of the model in the image, without a leading slash. Unset: the root of the image.",
        absent=None,
        min_length=1,
        max_length=1024,
    )


class BuiltinModel(Model):
    """A tiny model with random weights that is part of the serving image: it answers nonsense, and runs anywhere."""

    name: BuiltinModelName = field("Which model.")


class ModelSource(Model):
    """What is served: exactly one of huggingFace, persistentVolumeClaim, image and builtin."""

    exactly_one_of: ClassVar = ("huggingFace", "persistentVolumeClaim", "image", "builtin")

    hugging_face: HuggingFaceModel | None = field(absent=None)
    persistent_volume_claim: ModelVolume | None = field(absent=None)
    image: ModelImage | None = field(absent=None)
    builtin: BuiltinModel | None = field(absent=None)
    served_name: str | None = field(
        "Name that clients put into `model` of a request. Unset: the id of a huggingFace model, else the name of the "
        "object.",
        absent=None,
        pattern="^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
        max_length=200,
    )


class Engine(Model):
    """Arguments of the engine, vLLM. A wrong one is told in the Ready condition (InvalidEngineArgs)."""

    rules: ClassVar = (
        Rule(
            "!has(self.extraArgs) || self.extraArgs.all(k, k.matches('^[a-z][a-z0-9-]*$'))",
            "engine.extraArgs: names are written without leading dashes, in lower case and with '-' between words; "
            "write enable-chunked-prefill",
            ".extraArgs",
        ),
        Rule(
            f"!has(self.extraArgs) || !self.extraArgs.exists(k, k in {list(RESERVED)!r})",
            "engine.extraArgs takes no argument that has a field of its own or says where the engine listens; use "
            "engine, model, parallelism or access instead",
            ".extraArgs",
        ),
    )

    max_model_len: int | None = field(
        "Longest context in tokens, prompt and answer together. Unset: the model's own.", absent=None, ge=1
    )
    max_num_seqs: int | None = field(
        "Requests that one replica works on at once. Unset: vLLM's default.", absent=None, ge=1
    )
    dtype: DType = field("Number format of weights and activations. Auto: the model's own.", default=DType.AUTO)
    extra_args: dict[str, str] = field(
        'Further arguments of `vllm serve`, without dashes, values as text. A switch is "true" or "false", such as '
        '`enable-chunked-prefill: "true"`. They are checked by vLLM\'s own parser before the model is loaded.',
        default_factory=dict,
        max_items=64,
    )


class Parallelism(Model):
    """How one replica is spread over devices and nodes."""

    rules: ClassVar = (
        Rule(
            # The server tries rules on the default {} too, before it fills in the defaults of members.
            "!has(self.tensor) || self.tensor * self.pipeline % self.nodes == 0",
            "parallelism.nodes must divide parallelism.tensor times parallelism.pipeline, since each node has as many "
            "devices as the others; change one of them",
            ".nodes",
        ),
    )

    tensor: int = field("Devices that share each layer.", default=1, ge=1, le=64)
    pipeline: int = field("Groups of devices that each have some of the layers.", default=1, ge=1, le=64)
    nodes: int = field(
        "Nodes of one replica. More than 1 needs the LeaderWorkerSet controller in the cluster.",
        default=1,
        ge=1,
        le=64,
    )
    expert: bool = field("Divide the experts among the devices instead of dividing each expert.", default=False)
