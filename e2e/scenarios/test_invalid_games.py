"""A game that cannot be solved fails at once, with the place and the reason, and is never tried again."""

import time
from pathlib import Path

import pytest

from e2e.support.kube import Kube, condition, is_true, solve

KUHN = (Path(__file__).parents[2] / "docs" / "examples" / "games" / "kuhn.efg").read_text()

HEAD = 'EFG 2 R "x" { "one" "two" }\n""\n'
BROKEN = {
    "truncated": (KUHN[: len(KUHN) // 2], "line "),
    "nan-payoff": (HEAD + 'p "" 1 1 "" { "a" "b" } 0\nt "" 1 "" { nan, 1 }\nt "" 2 "" { 1, -1 }\n', "line 4"),
    "chance-sum": (HEAD + 'c "" 1 "" { "h" 1/2 "t" 1/4 } 0\nt "" 1 "" { 1, -1 }\nt "" 2 "" { -1, 1 }\n', "0.75"),
    "forgets": (
        HEAD
        + 'p "" 1 1 "first" { "a" "b" } 0\n'
        + 'p "" 1 2 "second" { "c" "d" } 0\nt "" 1 "" { 1, -1 }\nt "" 2 "" { -1, 1 }\n'
        + 'p "" 1 2 "second" { "c" "d" } 0\nt "" 3 "" { 2, -2 }\nt "" 4 "" { -2, 2 }\n',
        "second",
    ),
    "three-players": (
        'EFG 2 R "x" { "one" "two" "three" }\n""\np "" 1 1 "" { "a" "b" } 0\n'
        't "" 1 "" { 1, -1, 0 }\nt "" 2 "" { -1, 1, 0 }\n',
        "3 players",
    ),
}


@pytest.mark.e2e
def test_each_kind_of_bad_game_fails_within_thirty_seconds_and_only_once(kube: Kube) -> None:
    data = {f"{name}.efg": text for name, (text, _) in BROKEN.items()}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "games"}, "data": data})
    started = time.monotonic()
    kube.apply(*(solve(name, game={"configMapKeyRef": {"name": "games", "key": f"{name}.efg"}}) for name in BROKEN))
    for name, (_, words) in BROKEN.items():
        done = kube.until("cfr", name, is_true("Failed"), 90)
        failed = condition(done, "Failed")
        print(f"{name}: {time.monotonic() - started:.1f} s: {failed['message']}")
        assert failed["reason"] == "InvalidGame"
        assert f"{name}.efg" in failed["message"]
        assert words in failed["message"]
        pods = kube.list("pods", f"ballast.dev/owner-name={name}")
        assert len(pods) == 1, "it was tried again"
        assert pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42
    assert time.monotonic() - started < 90
