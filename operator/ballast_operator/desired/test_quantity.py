"""Amounts of memory, as Kubernetes writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_operator.desired.quantity import to_bytes, to_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64Gi", 64 << 30),
        ("1.5G", 1_500_000_000),
        ("1e9", 10**9),
        ("1E9", 10**9),
        ("1E", 10**18),
        (4096, 4096),
        ("1500m", 2),
        (".5Ki", 512),
        ("0", 0),
    ],
)
def test_a_quantity_is_so_many_bytes(text: str | int, size: int) -> None:
    assert to_bytes(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1KB", "1e", "abc"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 64Gi"):
        to_bytes(text)


@given(st.integers(0, 1 << 60))
def test_text_is_the_same_amount(size: int) -> None:
    assert to_bytes(to_text(size)) == size
