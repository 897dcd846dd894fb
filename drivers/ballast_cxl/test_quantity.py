"""Quantities of bytes, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_cxl.quantity import to_bytes, to_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1", 1),
        ("64Gi", 64 << 30),
        ("1.5Ki", 1536),
        ("2k", 2000),
        ("0.1", 1),
        ("1Ei", 1 << 60),
        ("3M", 3_000_000),
    ],
)
def test_a_quantity_is_so_many_bytes(text: str, size: int) -> None:
    assert to_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "1GB", "-1", "1gi", " 1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        to_bytes(text)


@given(st.integers(0, 1 << 62))
def test_bytes_are_the_same_after_being_written_down(size: int) -> None:
    assert to_bytes(to_text(size)) == size
