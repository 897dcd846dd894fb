"""VAMP: GPU memory that follows the load, as a vLLM plugin.

The replay bench, which measures it beside vLLM without it, is in `replay/`; it starts in `replay/cli.py`.
"""
