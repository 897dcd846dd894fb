"""VAMP: HBM pages that move between MoE expert weights and the KV cache while a vLLM engine serves.

The engine is built for more KV blocks than there is memory for; those without memory are parked. Under pressure the
coldest experts are remapped, at the same addresses, to copies in host memory, and their pages back parked blocks.

    VAMP_ENABLE=1 vllm serve MODEL      the plugin does the rest, and says on /metrics what it did or why it stays out
    python -m ballast_vamp probe        what this machine's driver and link can do
    python -m ballast_vamp replay       the same conversations with it and without it

A reader starts in `pages.py` (what may lie where), then `rank.py` (how pages move and how a failure is undone),
`controller.py` (when they move), and last `scheduler.py` and `worker.py`, the two places where vLLM is entered.
`replay/` is the bench that measures it.
"""
