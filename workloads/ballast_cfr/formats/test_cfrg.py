import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_cfr.errors import BadInputError
from ballast_cfr.formats import cfrg
from ballast_cfr.formats.test_properties import games
from ballast_cfr.games import builtin
from ballast_cfr.load import load


def content(name: str = "leduc") -> bytes:
    return b"".join(cfrg.write(builtin(name)))


@settings(max_examples=40, deadline=None)
@given(games)
def test_a_written_game_reads_back_as_itself(game: Any) -> None:
    back = cfrg.parse("copy", b"".join(cfrg.write(game)))
    assert (back.digest, back.name) == (game.digest, game.name)


def test_a_file_is_read_by_load_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("leduc.cfrg", "leduc.bin"):
        (tmp_path / name).write_bytes(content())
        game = load(tmp_path / name)
        assert (game.digest, game.big_blind) == (builtin("leduc").digest, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damaged_or_missing_byte_is_noticed(data: Any) -> None:
    whole = bytearray(content("kuhn"))
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[at] ^= data.draw(st.integers(1, 255))
    else:
        del whole[at:]
    with pytest.raises(BadInputError, match=r"game bad\.cfrg: "):
        cfrg.parse("bad.cfrg", bytes(whole))


def forged(change: Any) -> bytes:
    """Kuhn with a changed header or arrays, and the right digest."""
    whole = content("kuhn")
    length = int.from_bytes(whole[8:16], "little")
    header, arrays = json.loads(whole[16 : 16 + length]), bytearray(whole[16 + length : -32])
    change(header, arrays)
    text = json.dumps(header).encode()
    made = cfrg.MAGIC + len(text).to_bytes(8, "little") + text + bytes(arrays)
    return made + hashlib.sha256(made).digest()


def one_player_more(header: Any, arrays: bytearray) -> None:
    arrays[1] = 7


def no_labels(header: Any, arrays: bytearray) -> None:
    header["labels"] = []


def other_actions(header: Any, arrays: bytearray) -> None:
    header["actions"][0] = ["pass"]


def children_of_nobody(header: Any, arrays: bytearray) -> None:
    arrays[58] = 200


def another_hash(header: Any, arrays: bytearray) -> None:
    header["sha256"] = "0" * 64


def odd_arrays(header: Any, arrays: bytearray) -> None:
    header["arrays"][0]["dtype"] = "|O"


def no_hash(header: Any, arrays: bytearray) -> None:
    del header["sha256"]


def a_size_beyond_64_bits(header: Any, arrays: bytearray) -> None:
    header["arrays"][1]["shape"] = [2**70]


def a_label_that_is_no_text(header: Any, arrays: bytearray) -> None:
    header["labels"][0] = "\ud800"


def an_unused_infoset(header: Any, arrays: bytearray) -> None:
    header["labels"].append("unused")
    header["actions"].append([])
    header["arrays"][-1]["shape"] = [13]
    arrays.append(0)


def a_blind_below_zero(header: Any, arrays: bytearray) -> None:
    header["bigBlind"] = -1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_hash, "the header does not fit the format \\('sha256'\\)"),
        (a_size_beyond_64_bits, "the header does not fit the format"),
        (a_label_that_is_no_text, "the header does not fit the format .* surrogates not allowed"),
        (an_unused_infoset, "information sets are numbered by first appearance"),
        (a_blind_below_zero, "the big blind is a positive number"),
        (one_player_more, "does not hold that"),
        (no_labels, "information sets have labels and actions"),
        (other_actions, "actions fit the tree"),
        (children_of_nobody, "children add up"),
        (another_hash, "is not this game's"),
        (odd_arrays, "array player is"),
    ],
)
def test_a_forged_file_is_refused_with_what_is_wrong(change: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        cfrg.parse("forged", forged(change))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_probability_where_chance_does_not_move_is_refused(factor: float) -> None:
    game = builtin("kuhn")
    for node in (0, game.nodes - 1):
        chance = game.chance.copy()
        chance[node] *= factor
        with pytest.raises(BadInputError, match="only chance has probabilities"):
            cfrg.parse("odd", b"".join(cfrg.write(replace(game, chance=chance))))


def test_another_version_is_named() -> None:
    with pytest.raises(BadInputError, match="format version 2 is not 1"):
        cfrg.parse("new", b"BALGAME\x02" + b"0" * 60)


def test_a_file_too_large_for_memory_is_refused_before_it_is_unpacked() -> None:
    def huge(header: Any, arrays: bytearray) -> None:
        header["arrays"][0]["shape"] = [10**12]

    with pytest.raises(BadInputError, match="has 1,000,000,000,000 nodes and needs about"):
        cfrg.parse("huge", forged(huge))


def test_openspiel_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspiel", None)
    with pytest.raises(
        BadInputError, match=r"needs OpenSpiel, which is not installed; pip install 'ballast\[openspiel\]'"
    ):
        load("openspiel:leduc_poker")
