"""Devices, precision, formats and memory, as a user would see them on a cluster without GPUs."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from ballast_api.yamltext import dump
from e2e.scenarios.test_cfrsolve import complete, run_python
from e2e.support.kube import Kube, condition, is_true, reason, solve

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.yaml"))


@pytest.mark.cluster
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_server_takes_every_example(kube: Kube, example: Path) -> None:
    objects = [obj for obj in yaml.safe_load_all(example.read_text()) if obj]
    for obj in objects:
        obj["metadata"].pop("namespace", None)  # that namespace need not be there
    answer = kube.run("apply", "--dry-run=server", "-f", "-", text="---\n".join(dump(obj) for obj in objects))
    assert answer.count("created (server dry run)") == len(objects)


@pytest.mark.e2e
def test_cuda_without_a_gpu_in_the_cluster_waits_and_names_the_resource(kube: Kube) -> None:
    kube.apply(solve("leduc", device="CUDA"))
    waiting = kube.until("cfr", "leduc", reason("Progressing", "DeviceUnavailable"), 30, "the reason")
    said = condition(waiting, "Progressing")["message"]
    assert "nvidia.com/gpu" in said
    assert "DeviceUnavailable" in kube.plugin("why", "cfr/leduc")


@pytest.mark.e2e
def test_a_compiled_game_from_a_volume_is_solved_into_parquet(kube: Kube, cfr_image: str) -> None:
    for name in ("games", "results"):
        kube.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
            }
        )
    made = "from ballast_cfr.cli.main import main; main(['export', 'leduc', '/v/leduc.cfrg'])"
    run_python(kube, cfr_image, "writer", made, {"games": "/v", "results": "/r"})
    game = {"persistentVolumeClaim": {"claimName": "games", "path": "leduc.cfrg"}}
    output = {"persistentVolumeClaim": {"claimName": "results", "path": "leduc.parquet"}, "format": "Parquet"}
    kube.apply(solve("leduc", game=game, output=output, algorithm={"precision": "Mixed"}))
    complete(kube, "leduc")
    reader = "import pyarrow.parquet as pq; t = pq.read_table('/r/leduc.parquet'); print(t.num_rows, t.column_names[0])"
    assert run_python(kube, cfr_image, "reader", reader, {"results": "/r"}).split() == ["2184", "player"]


@pytest.mark.e2e
def test_a_batch_ends_with_a_result_for_each_of_its_solves(kube: Kube) -> None:
    example = yaml.safe_load((EXAMPLES[0].parent / "cfrsolve-batch.yaml").read_text())
    file = example["spec"]["batch"]["configMapKeyRef"]
    lines = (EXAMPLES[0].parent / "games" / file["key"]).read_text()
    meta = {"name": file["name"]}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {file["key"]: lines}}, example)
    status = complete(kube, example["metadata"]["name"])
    assert (status["instances"], status["instancesDone"], "value" in status) == (4, 4, False)
    found = kube.get("configmap", f"{example['metadata']['name']}-strategy")
    assert found is not None
    rows = list(csv.DictReader(found["data"]["instances.csv"].splitlines()))
    assert {row["name"] for row in rows} == {json.loads(line)["name"] for line in lines.splitlines()}
    assert all(row["reason"] == "TargetReached" for row in rows)
    assert abs(float(rows[0]["value"]) + 0.0856064) <= 1e-3
    masked = list(csv.DictReader(found["data"]["no-raise-with-a-queen.csv"].splitlines()))
    assert {row["probability"] for row in masked if (row["infoset"], row["action"]) == ("Qa:", "raise")} == {"0.0"}


@pytest.mark.e2e
def test_a_game_that_does_not_fit_fails_before_anything_is_allocated_with_both_numbers(kube: Kube) -> None:
    large = {"builtin": {"name": "leduc", "parameters": {"ranks": "100"}}}
    kube.apply(solve("large", game=large, template={"resources": {"limits": {"memory": "256Mi"}}}))
    failed = kube.until("cfr", "large", is_true("Failed"), 60, "Failed")
    assert reason("Failed", "OutOfMemory")(failed)
    message = condition(failed, "Failed")["message"]
    assert "needs about" in message and "but the limit here is 0.2 GiB" in message


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "value"), [("goofspiel", 0.0), ("battleship", 0.125), ("dark-hex", 1.0)])
def test_other_families_are_solved_to_their_values(kube: Kube, name: str, value: float) -> None:
    parameters = {"goofspiel": {"cards": "4"}, "battleship": {}, "dark-hex": {}}[name]
    kube.apply(solve(name, game={"builtin": {"name": name, "parameters": parameters}}))
    status = complete(kube, name)
    assert abs(float(str(status["value"])) - value) <= 1e-3
