"""Engine arguments against vLLM's own parser: what it would refuse is refused here, in one sentence."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

from ballast_serving.failures import USAGE, explain
from ballast_serving.message import Failure, Reason

# Set by the entry point itself; another value would cut the pod off from its Service, its probes or its drain.
OURS = ("host", "port", "model", "served-model-name", "revision", "headless", "shutdown-timeout", "api-key", "uds")


def refuse_ours(flags: Sequence[str]) -> None:
    """Raise Failure for a flag that belongs to the entry point, or for a word that is no flag."""
    for flag in flags:
        if not flag.startswith("--"):
            raise Failure(
                Reason.INVALID_ENGINE_ARGS,
                f"engine argument {flag!r} is not of the form --name=value; mend spec.engine",
            )
        name = flag[2:].split("=", 1)[0].replace("_", "-")
        if name in OURS:
            raise Failure(
                Reason.INVALID_ENGINE_ARGS,
                f"engine argument --{name} is set by the pod itself; leave it out of spec.engine.extraArgs",
            )


def check(flags: Sequence[str]) -> None:
    """Parse the flags as `vllm serve` would, without loading anything. Raises Failure with vLLM's sentence."""
    refuse_ours(flags)
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser(prog="vllm")
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(["serve", "model", *flags])
    except SystemExit as ended:
        raise explain(said.getvalue().splitlines(), int(ended.code or USAGE)) from None
    except ValueError as error:
        raise Failure(Reason.INVALID_ENGINE_ARGS, f"vllm refuses its arguments: {error}; mend spec.engine") from error
