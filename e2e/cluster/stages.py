"""The stages of a Dockerfile that one of them stands on, so that what is made from the same ones is not made again."""

from __future__ import annotations

import re

_FROM = re.compile(r"^FROM (?P<base>\S+) AS (?P<name>\S+)$", re.MULTILINE)
_COPIED = re.compile(r"^COPY --from=(\S+) ", re.MULTILINE)


def under(dockerfile: str, target: str) -> list[str]:
    """Texts of the target and of every stage that it is made from, in the order in which they stand there."""
    found = list(_FROM.finditer(dockerfile))
    ends = [*(match.start() for match in found[1:]), len(dockerfile)]
    texts = {match["name"]: dockerfile[match.start() : end] for match, end in zip(found, ends, strict=True)}
    needed, todo = set[str](), [target]
    while todo:
        name = todo.pop()
        if name in needed or name not in texts:  # of another image
            continue
        needed.add(name)
        todo += [texts[name].split(maxsplit=2)[1], *_COPIED.findall(texts[name])]
    return [text for name, text in texts.items() if name in needed]
