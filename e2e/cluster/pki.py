"""Certificates and kubeconfigs: one authority, and a client or server certificate for each component.

Elliptic curve keys (P-256): all of them take less time than one RSA key.
"""

from __future__ import annotations

import datetime
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.cluster.layout import Layout

VALID = datetime.timedelta(days=3650)
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class Identity:
    """A certificate to issue. `user` and `group` are what RBAC sees; `hosts` make it a server's as well."""

    file: str
    user: str
    group: str = ""
    hosts: tuple[str, ...] = ()
    client: bool = True


def identities(layout: Layout) -> list[Identity]:
    """Who takes part in the cluster."""
    kubernetes = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    server = (*kubernetes, "localhost", "127.0.0.1", layout.gateway, str(layout.services[1]))
    return [
        Identity("apiserver", "kube-apiserver", hosts=server, client=False),
        Identity("admin", "admin", "system:masters"),
        Identity("apiserver-kubelet", "apiserver-kubelet-client", "system:masters"),
        Identity("front-proxy", "front-proxy-client"),
        Identity("controllers", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("proxy", "system:kube-proxy"),
        Identity("router", "system:kube-router"),
        *(Identity(n.name, f"system:node:{n.name}", "system:nodes", (n.name, n.ip)) for n in layout.nodes),
    ]


def ensure(layout: Layout) -> None:
    """Issue everything, unless a run before has: a new authority would lock out what still runs."""
    complete = layout.pki / "complete"
    if complete.exists():
        return
    layout.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = Authority("ballast-ca")
    _write(layout.pki / "ca.crt", authority.certificate.public_bytes(serialization.Encoding.PEM))
    _write(layout.pki / "ca.key", _pem(authority.key))
    service_accounts = ec.generate_private_key(ec.SECP256R1())
    _write(layout.pki / "sa.key", _pem(service_accounts))
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    _write(layout.pki / "sa.pub", service_accounts.public_key().public_bytes(*public))
    for identity in identities(layout):
        certificate, key = authority.issue(identity)
        _write(layout.pki / f"{identity.file}.crt", certificate)
        _write(layout.pki / f"{identity.file}.key", key)
        if identity.client:
            # Nodes and pods reach this machine by the bridge; only the admin sits on the machine itself.
            host = "127.0.0.1" if identity.file in {"admin", "controllers", "scheduler"} else layout.gateway
            config = kubeconfig(layout, identity.file, f"https://{host}:{layout.ports.api}")
            _write(layout.pki / f"{identity.file}.kubeconfig", config.encode())
    _write(layout.kubeconfig, (layout.pki / "admin.kubeconfig").read_bytes())
    complete.touch()


def kubeconfig(layout: Layout, identity: str, server: str) -> str:
    """A kubeconfig that needs no other file. JSON, which is YAML too."""

    def data(file: str) -> str:
        return b64encode((layout.pki / file).read_bytes()).decode()

    name = layout.name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data("ca.crt")}}],
        "users": [
            {
                "name": identity,
                "user": {
                    "client-certificate-data": data(f"{identity}.crt"),
                    "client-key-data": data(f"{identity}.key"),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": identity}}],
        "current-context": name,
    }
    return json.dumps(config, indent=1) + "\n"


class Authority:
    """A certificate authority of one cluster."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        # keyUsage must say that it signs certificates: Python 3.13's TLS refuses an authority without.
        usage = _key_usage(key_cert_sign=True, crl_sign=True)
        self.certificate = (
            _builder(_name(name), _name(name), self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def issue(self, identity: Identity) -> tuple[bytes, bytes]:
        """Certificate and key, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = ([_SERVER] if identity.hosts else []) + ([_CLIENT] if identity.client else [])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(_name(identity.user, identity.group), self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(issuer, critical=False)
        )
        if identity.hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(identity.hosts)), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + VALID)
    )


def _name(common: str, group: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _alternatives(hosts: Sequence[str]) -> list[x509.GeneralName]:
    def one(host: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ip_address(host))
        except ValueError:
            return x509.DNSName(host)

    return [one(host) for host in hosts]


def _key_usage(digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
