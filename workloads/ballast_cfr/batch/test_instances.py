"""The batch's file: what is read, and what is refused with its line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast_cfr.batch.instances import factors, read
from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.variation import Variations
from ballast_cfr.errors import BadInputError, OutOfMemoryError
from ballast_cfr.games import builtin


def batch_file(root: Path, *lines: Any) -> Path:
    path = root / "batch.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    wide = {
        "name": "wide",
        "payoffs": [1, -1.5],
        "ranges": [{"J": 0.5}, {}],
        "locks": [{"infoset": "0pb", "strategy": [0.25, 0.75]}],
        "masks": [{"infoset": "1p", "actions": ["p"], "player": 1}],
    }
    found = read(batch_file(tmp_path, wide, "", {"name": "plain"}))
    assert found.names == ("wide", "plain")
    one = found.instances[0]
    assert one.payoffs is not None
    assert (one.payoffs.tolist(), one.ranges) == ([1.0, -1.5], ({"J": 0.5}, {}))
    assert (one.locks[0].values, one.locks[0].player) == ((0.25, 0.75), None)
    assert (one.masks[0].values, one.masks[0].player) == (("p",), 1)
    assert found.instances[1].where == "batch batch.jsonl, line 3"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1, column 2: this is not JSON: Expecting property name"),
        ("[" * 100_000, "line 1: lists and objects are nested too deeply"),
        ('{"name": "a", "locks": [], "locks": []}', "line 1: 'locks' is there twice in one object"),
        ('{"name": "a", "payoffs": [' + "9" * 400 + "]}", "payoffs must be a list of finite numbers"),
        ('{"name": "a", "payoffs": [' + "9" * 5000 + "]}", "payoffs must be a list of finite numbers"),
        ({"name": "a", "ranges": [{"J": -1}, {}]}, "ranges[0]: the factor of 'J' is -1, but must not be negative"),
        ({"name": "a", "locks": [{"infoset": "0", "strategy": [1], "player": True}]}, "player is True, but must be 0"),
        ("[]", "line 1: expected an object"),
        ({"name": "a", "payoff": [1]}, "there is no field 'payoff'; fields are name, payoffs"),
        ({}, "name is None"),
        ({"name": "Wide"}, "name is 'Wide', but must be 1 to 63 lower-case"),
        ({"name": "instances"}, "name is 'instances', but the table of all results is called so; choose another"),
        ({"name": "a", "payoffs": ["1"]}, "payoffs must be a list of finite numbers"),
        ({"name": "a", "payoffs": [True]}, "payoffs must be a list of finite numbers"),
        ('{"name": "a", "payoffs": [NaN]}', "payoffs must be a list of finite numbers"),
        ({"name": "a", "ranges": [{}]}, "ranges must be two objects"),
        ({"name": "a", "ranges": [{"J": "x"}, {}]}, "ranges[0]: the factors must be a list of finite numbers"),
        ({"name": "a", "locks": {}}, "locks must be a list"),
        ({"name": "a", "locks": [{"infoset": "0"}]}, "locks[0] must be an object with infoset, strategy"),
        ({"name": "a", "locks": [{"infoset": 0, "strategy": [1]}]}, "locks[0]: infoset must be a label"),
        ({"name": "a", "masks": [{"infoset": "0", "actions": [1]}]}, "masks[0]: actions must be names"),
        ({"name": "a", "masks": [{"infoset": "0", "actions": ["p"], "player": 2}]}, "player is 2"),
    ],
)
def test_a_bad_line_is_named(line: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as error:
        read(batch_file(tmp_path, line))
    assert said in str(error.value)
    assert str(error.value).startswith("batch batch.jsonl, line 1")


def test_names_are_unique_and_there_is_one_at_least(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"line 2: there is an instance a already, at batch batch.jsonl, line 1"):
        read(batch_file(tmp_path, {"name": "a"}, {"name": "a"}))
    with pytest.raises(BadInputError, match="has 0 instances, but must have 1 to"):
        read(batch_file(tmp_path, ""))


def test_the_digest_is_of_what_is_asked_for_not_of_how_it_is_written(tmp_path: Path) -> None:
    def digest(*lines: Any) -> str:
        return read(batch_file(tmp_path, *lines)).digest

    plain = {
        "name": "a",
        "payoffs": [1, -0.0],
        "locks": [{"infoset": "Q", "strategy": [1, 0]}],
        "masks": [{"infoset": "J", "actions": ["b", "p"]}],
    }
    other = '{"masks": [{"player": null, "infoset": "J", "actions": ["p", "b"]}], "payoffs":[1e0, 0.0],'
    other += ' "locks": [{"strategy": [1.0, 0.0], "infoset": "Q"}], "name": "a"}\r'
    assert digest(plain) == digest("", other)
    all_named = {"name": "a", "ranges": [{"J": 1, "Q": 2}, {}]}
    assert digest(all_named) == digest({"name": "a", "ranges": [{"Q": 2.0}, {}]})
    different: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b"},
        {"name": "a", "payoffs": [1]},
        {"name": "a", "ranges": [{}, {}]},
        {"name": "a", "ranges": [{"J": 2}, {}]},
        {"name": "a", "ranges": [{}, {"J": 2}]},
    ]
    assert len({digest(line) for line in different}) == len(different)
    assert digest(*different[:2]) != digest(*reversed(different[:2]))  # groups go by the order


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    line = json.dumps({"name": "a", "masks": [{"infoset": "one\u2028two\x85", "actions": []}]}, ensure_ascii=False)
    path = tmp_path / "batch.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b'\r\n{"name": "b"}\r\n')
    found = read(path)
    assert found.names == ("a", "b")
    assert found.instances[0].masks[0].infoset == "one\u2028two\x85"


def test_a_batch_that_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=f"batch {tmp_path} cannot be read: it is a folder, not a regular file"):
        read(tmp_path)
    with pytest.raises(BadInputError, match="batch /dev/zero cannot be read: it is a device, not a regular file"):
        read(Path("/dev/zero"))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(OutOfMemoryError, match="batch huge has 8,796,093,022,208 bytes and needs about"):
        read(tmp_path / "huge")


def test_types_that_are_not_named_keep_their_weight(tmp_path: Path) -> None:
    variations = Variations(compile_game(builtin("kuhn")))
    first = variations.deals.names[0][0]
    one = read(batch_file(tmp_path, {"name": "a", "ranges": [{first: 0.25}, {}]})).instances[0]
    mine, theirs = factors(one, variations)
    assert mine.tolist() == [0.25, 1.0, 1.0]
    assert np.all(theirs == 1)
    bad = read(batch_file(tmp_path, {"name": "a", "ranges": [{}, {"ace": 1}]})).instances[0]
    with pytest.raises(BadInputError, match=r"ranges\[1\] names 'ace', which player 1 is never dealt; it is dealt"):
        factors(bad, variations)
