"""CFRSolve: a two-player zero-sum game solved by counterfactual regret minimisation."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Model, Rule, field
from ballast_api.conditions import Condition
from ballast_api.meta import LocalObjectReference, Metadata
from ballast_api.template import Template

DECIMAL = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
SIGNED_DECIMAL = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"


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


class OutputFormat(StrEnum):
    """How a strategy is written on a volume."""

    CSV = "CSV"
    JSON = "JSON"


class BuiltinGame(Model):
    """A game that the solver generates itself."""

    name: str = field("Which game: kuhn, leduc or liars-dice.", examples=["leduc"])
    parameters: dict[str, str] = field("Parameters of the game, such as ranks for leduc.", default_factory=dict)


class ConfigMapKeyRef(Model):
    """One key of a ConfigMap of this namespace."""

    name: str = field("Name of the ConfigMap.", min_length=1, max_length=253)
    key: str = field("Key in the ConfigMap.", min_length=1, max_length=253)


class VolumePath(Model):
    """A path on a PersistentVolumeClaim of this namespace."""

    claim_name: str = field("Name of the PersistentVolumeClaim.", min_length=1, max_length=253)
    path: str = field("Path on the volume, without a leading slash.", min_length=1, max_length=1024)


class Game(Model):
    """Where the game comes from. Exactly one source."""

    exactly_one_of: ClassVar = ("builtin", "configMapKeyRef", "persistentVolumeClaim")

    builtin: BuiltinGame | None = field("A game that the solver generates itself.", absent=None)
    config_map_key_ref: ConfigMapKeyRef | None = field("A Gambit .efg file in a ConfigMap.", absent=None)
    persistent_volume_claim: VolumePath | None = field("A Gambit .efg file on a volume.", absent=None)
    sha256: str | None = field("Digest that the file must have.", absent=None, pattern="^[0-9a-f]{64}$")


class Stop(Model):
    """When a solve ends. At least one member; whichever is met first ends it."""

    rules: ClassVar = (
        Rule(
            "has(self.exploitability) || has(self.maxIterations) || has(self.maxSeconds)",
            "stop needs exploitability, maxIterations or maxSeconds; without one a solve never ends",
        ),
    )

    exploitability: str | None = field("Largest exploitability accepted, in `unit`.", absent=None, pattern=DECIMAL)
    unit: ExploitabilityUnit = field("What `exploitability` is measured in.", default=ExploitabilityUnit.ABSOLUTE)
    max_iterations: int | None = field("Iterations after which the best strategy so far is kept.", absent=None, ge=1)
    max_seconds: int | None = field("Wall-clock seconds of solving, pauses excluded.", absent=None, ge=1)


class Algorithm(Model):
    """How the game is solved."""

    variant: Variant = field("Which rule turns regrets into strategies.", default=Variant.CFR_PLUS)
    updates: Updates = field("Whether players are updated in turn or together.", default=Updates.ALTERNATING)
    tie_tolerance: int = field("Units in the last place within which regrets count as ties.", default=64, ge=0)
    parameters: dict[str, str] = field("Parameters of the variant, such as alpha for DCFR.", default_factory=dict)


class Checkpoint(Model):
    """Where a solve keeps its state, so that an evicted pod goes on where it was. At most one place is named."""

    at_most_one_of: ClassVar = ("persistentVolumeClaim", "ephemeral")

    interval_seconds: int = field("Seconds between two checkpoints.", default=30, ge=1, le=86400)
    size: str = field("Size of the volume that the operator makes.", default="1Gi")
    storage_class_name: str | None = field("Its storage class; the cluster's default if absent.", absent=None)
    persistent_volume_claim: VolumePath | None = field("A volume of yours to use instead.", absent=None)
    ephemeral: dict[str, str] | None = field("Set to {} to keep it in the pod only: lost with the pod.", absent=None)


class Output(Model):
    """Where the strategy goes. A small one is in the ConfigMap NAME-strategy in any case."""

    persistent_volume_claim: VolumePath | None = field("A volume for the whole strategy.", absent=None)
    format: OutputFormat = field("Format of the file on the volume.", default=OutputFormat.CSV)


class CFRSolveSpec(Model):
    """What to solve, how, and until when."""

    game: Game = field("Where the game comes from.")
    stop: Stop = field("When the solve ends.")
    algorithm: Algorithm = field("How it is solved.", default_factory=Algorithm)
    checkpoint: Checkpoint = field("Where its state is kept.", default_factory=Checkpoint)
    output: Output = field("Where the strategy goes.", default_factory=Output)
    template: Template = field("What the solver's pod needs in this cluster.", default_factory=Template)
    suspend: bool = field("True checkpoints and removes the pod; false goes on from the checkpoint.", default=False)
    backoff_limit: int = field("Failed pods before the solve fails; disruptions do not count.", default=6, ge=0)
    active_deadline_seconds: int | None = field("Seconds a run may take, counted anew on resume.", absent=None, ge=1)
    ttl_seconds_after_finished: int | None = field("Seconds until a finished object is deleted.", absent=None, ge=0)
    queue_name: str | None = field("Kueue LocalQueue that admits the solve.", absent=None)


class ResultReference(Model):
    """Where the strategy lies."""

    config_map_ref: LocalObjectReference | None = field("ConfigMap with strategy.csv and summary.json.", absent=None)
    persistent_volume_claim: VolumePath | None = field("Volume and path of the whole strategy.", absent=None)


class CFRSolveStatus(Model):
    """How the solve is going."""

    model_config = ConfigDict(extra="ignore")

    phase: str | None = field("Pending, Queued, Running, Suspended, Complete or Failed.", absent=None)
    observed_generation: int | None = field("Generation of the spec this describes.", absent=None)
    iteration: int | None = field("Iterations done.", absent=None)
    exploitability: str | None = field("Exploitability of the average strategy, absolute.", absent=None)
    value: str | None = field("Value of the game for the first player under the average strategies.", absent=None)
    iterations_per_second: str | None = field("Rate at the last look.", absent=None)
    eta_seconds: int | None = field("Seconds until the stop rule is met, by the present trend.", absent=None)
    start_time: str | None = field("When solving began.", absent=None)
    completion_time: str | None = field("When it ended.", absent=None)
    result: ResultReference | None = field("Where the strategy lies.", absent=None)
    conditions: list[Condition] = field("What the object says of itself.", default_factory=list, list_map_keys=["type"])


class CFRSolve(Model):
    """A two-player zero-sum game, solved until it is exploitable by no more than asked."""

    model_config = ConfigDict(extra="ignore")

    kind: ClassVar[str] = "CFRSolve"
    plural: ClassVar[str] = "cfrsolves"
    short_names: ClassVar = ("cfr",)
    columns: ClassVar = (
        Column("Game", ".spec.game.builtin.name"),
        Column("State", ".status.phase"),
        Column("Iterations", ".status.iteration", type="integer"),
        Column("Exploitability", ".status.exploitability"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    )

    metadata: Metadata = field("Metadata.")
    spec: CFRSolveSpec = field("What to solve.")
    status: CFRSolveStatus = field("How it is going.", default_factory=CFRSolveStatus)
