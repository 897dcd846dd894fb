"""What we say of an object's fields is about those fields only."""

from ballast_operator.objects import Identity, digest, fingerprint, identity, project

LIVE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "n", "resourceVersion": "7", "annotations": {"selected-node": "node1"}},
    "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv-1", "accessModes": ["ReadWriteOnce"]},
    "status": {"phase": "Bound"},
}
WANTED = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}


def test_a_projection_leaves_out_what_others_added_and_keeps_the_servers_form() -> None:
    assert project(LIVE, WANTED) == {
        "metadata": {"name": "c"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    }


def test_a_projection_shows_a_change_in_a_list_and_a_field_that_went() -> None:
    shape = {"spec": {"accessModes": ["ReadWriteOnce"], "gone": 1}}
    assert project(LIVE, shape) == {"spec": {"accessModes": ["ReadWriteOnce"], "gone": None}}
    longer = {"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}}
    assert project(longer, shape)["spec"]["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]


def test_a_fingerprint_moves_with_the_spec_and_not_with_the_status() -> None:
    other = LIVE | {"status": {"phase": "Lost"}}
    assert fingerprint(other) == fingerprint(LIVE)
    assert fingerprint(LIVE | {"spec": {}}) != fingerprint(LIVE)


def test_digests_do_not_depend_on_the_order_of_members() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert identity(LIVE) == Identity("v1", "PersistentVolumeClaim", "n", "c")
