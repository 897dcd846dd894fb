"""`python -m ballast_api.schema`: print the CRDs, or with --write and --check bring or hold the repository to them."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ballast_api.schema import KINDS, coretypes, extract, files, server
from ballast_api.schema.crd import crd
from ballast_api.yamltext import dump

REPOSITORY = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> int:
    """Exit code 1 if --check finds a file that is not what the models give."""
    parser = argparse.ArgumentParser(prog="python -m ballast_api.schema", description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write every generated file")
    action.add_argument("--check", action="store_true", help="compare them and change nothing")
    action.add_argument(
        "--core",
        metavar="FILE",
        help="extract core/v1 types from an OpenAPI v3 document, or from the current API server if FILE is `server`",
    )
    chosen = parser.parse_args(arguments)
    if chosen.core:
        write_core(server.document() if chosen.core == "server" else json.loads(Path(chosen.core).read_text("utf-8")))
        return 0
    if chosen.write:
        for path in files.write(REPOSITORY):
            print(f"wrote {path}")
        return 0
    if chosen.check:
        stale = files.differences(REPOSITORY)
        for path in stale:
            print(f"{path} is not what the models give; run `make crds`", file=sys.stderr)
        return 1 if stale else 0
    print("---\n".join(dump(crd(kind)) for kind in KINDS), end="")
    return 0


def write_core(document: dict[str, Any]) -> None:
    """Put the extract beside the code that reads it."""
    found = {"source": f"Kubernetes {document['info']['version']}", "schemas": extract.extract(document)}
    path = Path(__file__).with_name(coretypes.FILE)
    path.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
