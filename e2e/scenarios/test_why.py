"""Five objects that cannot run, and that the plugin names the cause and the next command for each."""

import subprocess

import pytest

from e2e.support.kube import Kube, Object, condition, eventually, solve

BROKEN: dict[str, tuple[Object, str, str]] = {
    "no-map": (
        {"game": {"configMapKeyRef": {"name": "nowhere", "key": "k.efg"}}},
        "DependencyMissing",
        "game.configMapKeyRef",
    ),
    "no-node": ({"template": {"nodeSelector": {"disk": "none-such"}}}, "InsufficientCapacity", "node(s) didn't match"),
    "no-class": ({"checkpoint": {"storageClassName": "none-such"}}, "VolumePending", "unbound"),
    "no-game": ({"game": {"builtin": {"name": "leduc", "parameters": {"ranks": "one"}}}}, "InvalidGame", "ranks"),
    "no-right": (
        {"template": {"securityContext": {"runAsNonRoot": False, "runAsUser": 0}}},
        "Forbidden",
        "violates PodSecurity",
    ),
}


@pytest.mark.e2e
def test_why_names_the_cause_and_the_next_command_for_five_broken_objects(kube: Kube) -> None:
    kube.apply(*(solve(name, **spec) for name, (spec, _, _) in BROKEN.items()))
    for name, (_, expected, words) in BROKEN.items():

        def says(name: str = name, expected: str = expected) -> bool:
            return f"({expected})" in why(kube, name)

        eventually(says, 60, lambda name=name: f"why cfr/{name}: {why(kube, name)}")  # type: ignore[misc]
        text = why(kube, name)
        print(text)
        assert words in text
        command = text.splitlines()[-1].removeprefix("next:  ")
        done = subprocess.run(command, shell=True, env=kube.shell(), capture_output=True, check=False)
        assert done.returncode == 0, f"the next command does not run: {command}: {done.stderr!r}"


def why(kube: Kube, name: str) -> str:
    return kube.plugin("why", f"cfr/{name}")


@pytest.mark.e2e
def test_a_need_that_comes_late_starts_the_solve(kube: Kube) -> None:
    from e2e.scenarios.test_invalid_games import KUHN

    kube.apply(solve("kuhn", game={"configMapKeyRef": {"name": "late", "key": "kuhn.efg"}}))
    kube.until("cfr", "kuhn", lambda o: condition(o, "Progressing").get("reason") == "DependencyMissing", 30)
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"kuhn.efg": KUHN}})
    kube.until("cfr", "kuhn", lambda o: condition(o, "Complete").get("status") == "True", 180)
