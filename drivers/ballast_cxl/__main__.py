"""`python -m ballast_cxl controller|node|emulator`, each with flags of its own."""

import argparse
import importlib
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ballast_cxl", description="Composable CXL memory.")
    parser.add_argument("part", choices=("controller", "node", "emulator"), help="which process to be")
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="flags of that process")
    chosen = parser.parse_args(arguments)
    part = importlib.import_module(f"ballast_cxl.{chosen.part}.main")  # each has libraries of its own
    return int(part.main(chosen.flags))


if __name__ == "__main__":
    sys.exit(main())
