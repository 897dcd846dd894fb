"""A router profile in a running engine: each MoE layer's router picks experts in proportion to the profile's shares.

Used as vLLM's `worker_extension_cls`. Each worker imports this module before it builds its model, which is the one
moment at which a router can be changed for good: later its work is inside CUDA graphs. So the change is made on import,
and only where a profile is asked for by the environment (PROFILE). What the graphs read afterwards is a tensor of
logarithms for each layer, which `replay_profile` overwrites in place when the traffic is to change.

How: a router's logits over experts are standardised and turned into Gumbel noise, a function of the hidden state alone,
so the same token takes the same way in every arm; with the logarithms of the shares added, the top k of them are a draw
without replacement in these proportions (the Gumbel-max trick; Kool et al. 2019).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import PROFILE, Profile


class Layers:
    """The logarithms of the shares of every layer of this process, in the order in which layers first route."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.known: dict[int, Any] = {}

    def of(self, router: object, logits: Any) -> Any:
        """The tensor of one router, made when it first routes: in the engine's profiling run, not in a graph."""
        import torch

        found = self.known.get(id(router))
        if found is None:
            shares = self.profile.log_shares(len(self.known), logits.shape[-1])
            found = torch.tensor(shares, dtype=torch.float32, device=logits.device)
            self.known[id(router)] = found
        return found

    def change(self, profile: Profile) -> int:
        """Overwrite every layer's tensor in place; returns how many there are. Layers that come later start with it."""
        import torch

        self.profile = profile
        with torch.inference_mode():  # in which they were made; outside of it they may not be written to
            for layer, kept in enumerate(self.known.values()):
                kept.copy_(torch.tensor(profile.log_shares(layer, kept.numel()), dtype=torch.float32))
        return len(self.known)


def biased(logits: Any, log_shares: Any) -> Any:
    """Logits (tokens, experts) whose top k is a draw by the shares (experts,). float32, whatever came in."""
    import torch

    x = logits.float()
    standard = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-30)
    uniform = torch.special.ndtr(standard).clamp(1e-6, 1 - 1e-6)
    return log_shares - torch.log(-torch.log(uniform))


def install(profile: Profile) -> Layers:
    """Change the routers of this process. Raises ReplayError if this vLLM's routers are not as expected."""
    from vllm.model_executor.layers.fused_moe.router.base_router import BaseRouter

    original: Callable[..., Any] | None = vars(BaseRouter).get("_select_experts")
    if original is None:
        raise ReplayError("profile: this vLLM's BaseRouter has no _select_experts, as 0.26 and 0.32 have")
    layers = Layers(profile)

    @functools.wraps(original)
    def select(self: Any, hidden_states: Any, router_logits: Any, *rest: Any, **named: Any) -> Any:
        return original(self, hidden_states, biased(router_logits, layers.of(self, router_logits)), *rest, **named)

    BaseRouter._select_experts = select
    return layers


class RoutingExtension:
    """What the bench asks of a worker, by `collective_rpc`."""

    def replay_profile(self, text: str) -> int:
        """Route by another profile from the next step on; returns the number of layers."""
        if LAYERS is None:
            raise ReplayError(f"profile {text}: the engine was started without one; set {PROFILE}")
        return LAYERS.change(Profile.parse(text))


LAYERS = install(Profile.parse(os.environ[PROFILE])) if os.environ.get(PROFILE) else None
