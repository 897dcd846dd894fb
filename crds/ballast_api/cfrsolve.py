"""CFRSolve: a two-player zero-sum game solved by counterfactual regret minimisation."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Kind, Model, Rule, field
from ballast_api.conditions import Conditions
from ballast_api.meta import (
    DECIMAL,
    ConfigMapKeyRef,
    Decimal,
    LocalObjectReference,
    Metadata,
    SignedDecimal,
    Size,
    Time,
    VolumePath,
)
from ballast_api.template import Template


class GameName(StrEnum):
    """The games that the solver generates itself."""

    BATTLESHIP = "battleship"
    DARK_HEX = "dark-hex"
    GOOFSPIEL = "goofspiel"
    KUHN = "kuhn"
    LEDUC = "leduc"
    LIARS_DICE = "liars-dice"
    OSHI_ZUMO = "oshi-zumo"
    POKER_RIVER = "poker-river"
    POKER_TURN = "poker-turn"
    RANDOM_GAME = "random-game"


class ExploitabilityUnit(StrEnum):
    """What exploitability is measured in."""

    ABSOLUTE = "Absolute"
    SPAN = "Span"
    MILLI_BIG_BLIND = "MilliBigBlind"


class Variant(StrEnum):
    """Which rule turns regrets into strategies."""

    CFR = "CFR"
    CFR_PLUS = "CFRPlus"
    DCFR = "DCFR"
    PCFR_PLUS = "PCFRPlus"


class Updates(StrEnum):
    """Whether the players' regrets are updated in turn, or both from the same strategies."""

    ALTERNATING = "Alternating"
    SIMULTANEOUS = "Simultaneous"


class Device(StrEnum):
    """What iterates."""

    AUTO = "Auto"
    CPU = "CPU"
    CUDA = "CUDA"


class Precision(StrEnum):
    """How numbers are kept."""

    FLOAT64 = "Float64"
    MIXED = "Mixed"


class OutputFormat(StrEnum):
    """How a strategy is written on a volume."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "Parquet"


class BuiltinGame(Model):
    """A game that the solver generates itself; docs/cfrsolve.md lists them with their parameters."""

    name: GameName = field("Which game.", examples=["leduc"])
    parameters: dict[str, str] = field(
        'Sizes of the game, as text, such as `ranks: "4"` for leduc. Unset: the game\'s usual size.',
        default_factory=dict,
        max_items=32,
    )


class Game(Model):
    """Where the game comes from: exactly one of builtin, configMapKeyRef and persistentVolumeClaim."""

    exactly_one_of: ClassVar = ("builtin", "configMapKeyRef", "persistentVolumeClaim")
    rules: ClassVar = (
        Rule(
            "!has(self.sha256) || !has(self.builtin)",
            "game.sha256 is the digest of a file, and a builtin game has none; remove sha256",
            ".sha256",
        ),
    )

    builtin: BuiltinGame | None = field(absent=None)
    config_map_key_ref: ConfigMapKeyRef | None = field(
        "A game file, Gambit's .efg or a compiled .cfrg, in a ConfigMap of this namespace.", absent=None
    )
    persistent_volume_claim: VolumePath | None = field(
        "A game file, Gambit's .efg or a compiled .cfrg, on a volume; it is mounted read-only.", absent=None
    )
    sha256: str | None = field(
        "SHA-256 digest that the game file must have, 64 hexadecimal digits. Unset: any file is taken.",
        absent=None,
        pattern="^[0-9a-f]{64}$",
        max_length=64,
    )


class Batch(Model):
    """Where the file of a batch comes from: exactly one of configMapKeyRef and persistentVolumeClaim."""

    exactly_one_of: ClassVar = ("configMapKeyRef", "persistentVolumeClaim")

    config_map_key_ref: ConfigMapKeyRef | None = field(
        'The file in a ConfigMap of this namespace. A line is one solve, such as {"name": "wide", "ranges": [{}, {}]}; '
        "docs/cfrsolve.md has all fields.",
        absent=None,
    )
    persistent_volume_claim: VolumePath | None = field("The file on a volume; it is mounted read-only.", absent=None)


class Stop(Model):
    """When the solve ends. At least one of exploitability, maxIterations and maxSeconds; the first one met ends it."""

    rules: ClassVar = (
        Rule(
            "has(self.exploitability) || has(self.maxIterations) || has(self.maxSeconds)",
            "stop needs exploitability, maxIterations or maxSeconds, without which a solve never ends; add one",
        ),
        Rule(
            f"!has(self.exploitability) || (self.exploitability.matches(r'{DECIMAL}')"
            " && double(self.exploitability) > 0.0)",
            'stop.exploitability must be a decimal above 0 in quotes; write it like "1e-3" or "0.001"',
            ".exploitability",
        ),
    )

    exploitability: Decimal | None = field(
        "Largest exploitability accepted, in `unit`: what the players' best responses gain on average. A decimal above "
        "0, in quotes. Unset: no target.",
        absent=None,
        examples=["1e-3"],
    )
    unit: ExploitabilityUnit = field(
        "What `exploitability` is measured in. Absolute: the game's payoffs. Span: the difference between the largest "
        "and the smallest payoff. MilliBigBlind: thousandths of a big blind, for poker games only.",
        default=ExploitabilityUnit.ABSOLUTE,
    )
    max_iterations: int | None = field(
        "Iterations after which the solve ends with what it has. Unset: no limit.", absent=None, ge=1
    )
    max_seconds: int | None = field(
        "Seconds of solving after which the solve ends with what it has; time without a pod does not count. Unset: no "
        "limit.",
        absent=None,
        ge=1,
    )


class Algorithm(Model):
    """How the game is solved."""

    variant: Variant = field(
        "Which rule turns regrets into strategies. CFR: the original. CFRPlus: regrets are cut at zero, later "
        "iterations weigh more. DCFR: earlier iterations are discounted. PCFRPlus: CFRPlus with predicted regrets.",
        default=Variant.CFR_PLUS,
    )
    updates: Updates = field(
        "Alternating: one player after the other, each against the newest strategy. Simultaneous: both at once.",
        default=Updates.ALTERNATING,
    )
    tie_tolerance: int | None = field(
        "Units in the last place within which regrets count as equal, so that rounding cannot break a tie. 0 switches "
        "the rule off. Unset: 64.",
        absent=None,
        ge=0,
        le=1 << 20,
    )
    precision: Precision | None = field(
        "Float64: every number has 64 bits. Mixed: strategies and values have 32, regrets and sums 64; good to an "
        "exploitability of about a millionth of the span. Unset: Float64.",
        absent=None,
    )
    parameters: dict[str, str] = field(
        'Parameters of the variant, as decimals in quotes, such as `alpha: "1.5"` for DCFR. Unset: the published ones.',
        default_factory=dict,
        max_items=32,
    )


class Ephemeral(Model):
    """Keep checkpoints in the pod only; an evicted or failed pod starts again from nothing. It has no members: `{}`."""


class Checkpoint(Model):
    """Where the solver keeps its state, so that a new pod goes on where the last one was. Unset: on a volume that the
    operator makes, called NAME-checkpoint. At most one of persistentVolumeClaim and ephemeral."""

    at_most_one_of: ClassVar = ("persistentVolumeClaim", "ephemeral")
    rules: ClassVar = (
        Rule(
            "!has(self.storageClassName) || !(has(self.persistentVolumeClaim) || has(self.ephemeral))",
            "checkpoint.storageClassName is for the volume that the operator makes, and none is made with "
            "persistentVolumeClaim or ephemeral; remove storageClassName",
            ".storageClassName",
        ),
    )

    interval_seconds: int = field("Seconds between two checkpoints.", default=30, ge=1, le=86400)
    size: Size = field(
        "Size of the volume that the operator makes, in bytes or with a unit; unused with persistentVolumeClaim.",
        default="1Gi",
    )
    storage_class_name: str | None = field(
        "StorageClass of the volume that the operator makes. Unset: the cluster's default.",
        absent=None,
        min_length=1,
        max_length=253,
    )
    persistent_volume_claim: VolumePath | None = field(
        "A folder on a volume of yours to use instead; it outlives the object.", absent=None
    )
    ephemeral: Ephemeral | None = field(absent=None)


class Output(Model):
    """Where the strategy goes. One of up to 1 MiB is in the ConfigMap NAME-strategy in any case."""

    persistent_volume_claim: VolumePath | None = field(
        "A file on a volume of yours for the whole strategy, whatever its size; it outlives the object. With batch: a "
        "folder, with a file for each of its solves.",
        absent=None,
    )
    format: OutputFormat = field(
        "Format of the file on the volume. JSON: one document, best for small games. CSV: one line an action. Parquet: "
        "the same columns, compressed, written piece by piece; best for large games.",
        default=OutputFormat.CSV,
    )


class CFRSolveSpec(Model):
    """What to solve, how, and until when. Only suspend and ttlSecondsAfterFinished can change later."""

    immutable_but_for: ClassVar = ("suspend", "ttlSecondsAfterFinished")
    rules: ClassVar = (
        Rule(
            "!has(self.batch) || !(self.device == 'CUDA' && has(self.algorithm.precision)"
            " && self.algorithm.precision == 'Mixed')",
            "algorithm.precision Mixed is not for a batch on a GPU; remove it, or choose device CPU",
            ".algorithm.precision",
        ),
        Rule(
            "!has(self.template) || !has(self.template.volumes)"
            " || !self.template.volumes.exists(v, v.name in ['scratch', 'checkpoint', 'game', 'batch', 'output'])",
            "template.volumes: scratch, checkpoint, game, batch and output are the solver's own; use another name",
            ".template.volumes",
        ),
        Rule(
            "!has(self.template) || !has(self.template.volumeMounts)"
            " || !self.template.volumeMounts.exists(m,"
            " m.mountPath in ['/tmp', '/ballast'] || m.mountPath.startsWith('/ballast/'))",
            "template.volumeMounts: /tmp and /ballast are the solver's own folders; mount the volume elsewhere",
            ".template.volumeMounts",
        ),
    )

    game: Game = field()
    stop: Stop = field()
    algorithm: Algorithm = field(default_factory=Algorithm)
    device: Device = field(
        "What iterates. CPU: one thread. CUDA: an NVIDIA GPU; one nvidia.com/gpu is asked for unless "
        "template.resources has a GPU or a claim. Auto: the faster of the two if template.resources gives a GPU or a "
        "claim, else CPU.",
        default=Device.AUTO,
    )
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    batch: Batch | None = field(
        "Many solves of the game, which differ in payoffs, ranges, locks and masks; `stop` holds for each of them. "
        "Unset: one solve.",
        absent=None,
    )
    output: Output = field(default_factory=Output, shown=False)
    template: Template = field(default_factory=Template)
    suspend: bool = field(
        "True writes a checkpoint and removes the pod; false makes a new one that goes on from there.", default=False
    )
    backoff_limit: int = field(
        "Failed pods after which the solve is Failed. Evictions and other disruptions do not count.",
        default=6,
        ge=0,
        le=1000,
    )
    active_deadline_seconds: int | None = field(
        "Seconds after which a solve that has not ended is Failed, waiting for a node included; counted anew after a "
        "suspension. Unset: no deadline.",
        absent=None,
        ge=1,
        le=2147483647,
    )
    ttl_seconds_after_finished: int | None = field(
        "Seconds after the end until the object is deleted, with its ConfigMap and volume; a volume of yours stays. "
        "Unset: it is kept.",
        absent=None,
        ge=0,
        le=2147483647,
    )
    queue_name: str | None = field(
        "Kueue LocalQueue, in this namespace, that admits the solve. Unset: it starts at once.",
        absent=None,
        min_length=1,
        max_length=63,
    )


class ResultReference(Model):
    """Where the strategy lies."""

    model_config = ConfigDict(extra="ignore")

    config_map_ref: LocalObjectReference | None = field(
        "ConfigMap with strategy.csv and summary.json; absent if the strategy is over 1 MiB. Of a batch: with "
        "instances.csv, summary.json and a file for each solve.",
        absent=None,
    )
    persistent_volume_claim: VolumePath | None = field(
        "Volume and path of the whole strategy; of a batch, of the folder with all of them.", absent=None
    )


class CFRSolveStatus(Model):
    """How the solve is going, as the operator sees it."""

    model_config = ConfigDict(extra="ignore")

    phase: str | None = field(
        "The conditions in one word: Pending, Queued, Running, Suspended, Complete or Failed.", absent=None
    )
    observed_generation: int | None = field("Generation of the spec that this describes.", absent=None)
    iteration: int | None = field("Iterations done.", absent=None)
    exploitability: SignedDecimal | None = field(
        "Exploitability of the average strategies at the last check, in the game's payoffs; at the end of a batch, the "
        "largest of all.",
        absent=None,
    )
    value: SignedDecimal | None = field(
        "Value of the game for the first player, in payoffs, under the average strategies.", absent=None
    )
    iterations_per_second: SignedDecimal | None = field("Iterations per second at the last look.", absent=None)
    eta_seconds: int | None = field("Seconds until the stop rule is met, by the present trend.", absent=None)
    instances: int | None = field("Solves of the batch.", absent=None)
    instances_done: int | None = field("Solves of the batch that have ended.", absent=None)
    start_time: Time | None = field("When the first pod began to solve.", absent=None)
    completion_time: Time | None = field("When the solve was Complete or Failed.", absent=None)
    result: ResultReference | None = field(absent=None)
    conditions: Conditions = field(
        "What the object says of itself: Progressing, Suspended, Complete, Failed. The last two are final.",
        default_factory=list,
        list_map_keys=["type"],
        max_items=32,
    )


class CFRSolve(Kind):
    """CFRSolve solves a two-player zero-sum game until the strategy is exploitable by no more than asked."""

    kind: ClassVar[str] = "CFRSolve"
    plural: ClassVar[str] = "cfrsolves"
    short_names: ClassVar = ("cfr",)
    child_suffixes: ClassVar = ("-checkpoint", "-strategy", "-solve")
    columns: ClassVar = (
        Column("Game", ".spec.game.*['key','name','path']"),
        Column("State", ".status.phase"),
        Column("Iterations", ".status.iteration", type="integer"),
        Column("Exploitability", ".status.exploitability"),
        Column("Target", ".spec.stop.exploitability"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Value", ".status.value", priority=1),
        Column("ETA", ".status.etaSeconds", type="integer", priority=1),
    )

    metadata: Metadata = field()
    spec: CFRSolveSpec = field()
    status: CFRSolveStatus = field(default_factory=CFRSolveStatus)
