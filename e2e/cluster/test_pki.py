import json
import ssl
from base64 import b64decode
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from e2e.cluster import pki
from e2e.cluster.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path, 3)
    pki.ensure(made)
    return made


def load(layout: Layout, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((layout.pki / f"{name}.crt").read_bytes())


def test_every_certificate_is_the_authoritys(layout: Layout) -> None:
    authority = load(layout, "ca")
    for identity in pki.identities(layout):
        load(layout, identity.file).verify_directly_issued_by(authority)


def test_the_authority_says_that_it_signs_certificates(layout: Layout) -> None:
    usage = load(layout, "ca").extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign


def test_the_api_server_is_known_by_every_address_it_is_called_by(layout: Layout) -> None:
    names = load(layout, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = set(names.get_values_for_type(x509.IPAddress))
    assert {ip_address(a) for a in ("127.0.0.1", layout.gateway, str(layout.services[1]))} == addresses
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_a_node_is_who_the_node_authorizer_expects(layout: Layout) -> None:
    subject = load(layout, "node1").subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:node1"
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"


def test_keys_are_readable_by_nobody_else(layout: Layout) -> None:
    assert {path.stat().st_mode & 0o077 for path in layout.pki.glob("*.key")} == {0}
    assert layout.kubeconfig.stat().st_mode & 0o077 == 0


def test_the_kubeconfig_is_portable_and_uses_this_machine(layout: Layout, tmp_path: Path) -> None:
    config = json.loads(layout.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{layout.ports.api}"
    user = config["users"][0]["user"]
    pair = tmp_path / "pair.pem"
    pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
    ssl.create_default_context().load_cert_chain(pair)  # raises if the key is another's


def test_a_second_run_issues_nothing_anew(layout: Layout) -> None:
    before = (layout.pki / "ca.crt").read_bytes()
    pki.ensure(layout)
    assert (layout.pki / "ca.crt").read_bytes() == before
