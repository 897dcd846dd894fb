"""The replay bench: the same conversations, token for token, against vLLM with and without VAMP.

    python -m ballast_vamp trace --preset swe110 --out trace.jsonl
    python -m ballast_vamp replay --preset swe110 --arms plain,vamp,kv-offload --json result.json
    python -m ballast_vamp plot result.json --out pictures

`trace` and `presets` make conversations, `profiles` says which experts are hot, `drive` plays one against an engine
(`local`, in this process, or `live`, a server), `arms` starts an engine for each arm, `report` compares.

Why not an existing load generator. vLLM's `bench serve` sends single turns; its multi-turn script and AIPerf hold
conversations, but in text: what comes back, or what a tokenizer makes of it, decides what the next prompt is, so two
arms do not get the same tokens. vLLM's trace replay forces tokens, but only in its newest model runner, which does not
serve most MoE models of the versions supported here. None of them applies a router profile or reads the `vamp:*`
metrics. So the client is our own; it is the small part (`drive`, `live`).
"""
