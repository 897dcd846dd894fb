"""Decimals survive being read and written as kubectl would."""

from ballast_api.yamltext import dump, load_all


def test_a_decimal_without_quotes_is_a_number_as_for_kubectl() -> None:
    assert load_all("a: 1e-3\nb: '1e-3'\nc: 12\nd: 1.5\n---\n---\nx: y") == [
        {"a": 0.001, "b": "1e-3", "c": 12, "d": 1.5},
        {"x": "y"},
    ]


def test_a_decimal_in_quotes_keeps_them() -> None:
    assert dump({"exploitability": "1e-3"}) == "exploitability: '1e-3'\n"


def test_what_is_used_twice_is_written_twice() -> None:
    same = {"a": 1}
    assert dump({"x": same, "y": same}) == "x:\n  a: 1\ny:\n  a: 1\n"
