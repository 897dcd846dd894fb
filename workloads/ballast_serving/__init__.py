"""What runs inside the pods of a MoEServing: the entry point around vLLM, and the router that holds requests.

    python -m ballast_serving serve --model PATH --served-name NAME -- --max-model-len=4096
    python -m ballast_serving hold --engines qwen-engines:8000 --policy PrefixAware
    python -m ballast_serving check -- --max-model-len=4096
    python -m ballast_serving tiny-model --out DIR

A reader starts in `launch.py` (the life of an engine pod) or in `hold/proxy.py` (the way of a request).
"""
