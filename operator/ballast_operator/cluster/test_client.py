"""How the API server is reached."""

import pytest

from ballast_operator.cluster.client import proxy_for


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        ("https://api.example:6443", "http://proxy:3128"),
        ("https://10.96.0.1:443", None),
        ("http://api.example:8080", None),
    ],
)
def test_the_environments_proxy_is_used_but_where_it_says_not_to(
    monkeypatch: pytest.MonkeyPatch, address: str, proxy: str | None
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.96.0.1,localhost")
    assert proxy_for(address) == proxy
