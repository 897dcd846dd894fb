"""The page `docs/not-ready.md`, written from the same table that `kubectl ballast why` reads.

`python -m ballast_operator.cli.page > docs/not-ready.md` (part of `make docs`); a test compares the two.
"""

from ballast_operator.cli.advice import ADVICE, UNSEEN, Advice

HEAD = """\
# When it is not Ready

`kubectl ballast why cfr/NAME` prints the first thing that stands in an object's way, its usual cause, and the next
command. The condition's message has the particulars: which object, which field, which value. This is the whole table.

| reason | usual cause | next command |
|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    rows = [_row(reason.value, advice) for reason, advice in ADVICE.items()]
    return HEAD + "\n".join([*rows, _row("no status, or an old one", UNSEEN)]) + "\n"


def _row(reason: str, advice: Advice) -> str:
    command = advice.command.format(kind="cfr", name="NAME", namespace="NAMESPACE").replace("|", "\\|")
    return f"| {reason} | {advice.cause} | `{command}` |"


if __name__ == "__main__":
    print(page(), end="")
