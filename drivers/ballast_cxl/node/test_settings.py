"""A setting that is not what it should be stops the start, by the variable's name."""

from pathlib import Path

import pytest

from ballast_cxl.node.settings import Settings

NODE = {"BALLAST_CXL_NODE_NAME": "node1"}


def test_the_nodes_name_is_all_that_must_be_said() -> None:
    settings = Settings.from_environment(NODE)
    assert (settings.node, settings.host, settings.prepare_seconds) == ("node1", "linux", 30.0)
    assert settings.prepare_seconds < 45, "kubelet gives up then"
    assert settings.folder == Path("/var/lib/kubelet/plugins/cxl.ballast.dev")


def test_everything_can_be_set() -> None:
    more = {"BALLAST_CXL_KUBELET_DIR": "/k", "BALLAST_CXL_LEASE_SECONDS": "2.5", "BALLAST_CXL_HEALTH_PORT": "0"}
    settings = Settings.from_environment(NODE | more)
    assert (settings.registry, settings.lease_seconds, settings.health_port) == (Path("/k/plugins_registry"), 2.5, 0)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "BALLAST_CXL_NODE_NAME must name the node"),
        (NODE | {"BALLAST_CXL_HOST": "qemu"}, "BALLAST_CXL_HOST must be linux or emulated, not 'qemu'"),
        (NODE | {"BALLAST_CXL_RENEW_SECONDS": "0"}, "BALLAST_CXL_RENEW_SECONDS must be a number of seconds above 0"),
        (NODE | {"BALLAST_CXL_HEALTH_PORT": "x"}, "BALLAST_CXL_HEALTH_PORT must be a port, not 'x'"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Settings.from_environment(environment)
