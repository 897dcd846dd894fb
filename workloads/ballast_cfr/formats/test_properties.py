"""Random games: what is written reads back, and what is cut off is refused."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_cfr.errors import BadInputError
from ballast_cfr.formats import efg, efg_write
from ballast_cfr.games import builtin

games = st.builds(
    lambda **parameters: builtin("random-game", parameters),
    seed=st.integers(0, 10**6),
    depth=st.integers(1, 5),
    branching=st.integers(1, 3),
    merge=st.sampled_from([0, 60, 100]),
)


@settings(max_examples=40, deadline=None)
@given(games)
def test_a_written_game_reads_back_as_itself(game: Any) -> None:
    assert efg.parse("copy", "".join(efg_write.write(game)).encode()).digest == game.digest


@settings(max_examples=150, deadline=None)
@given(games, st.data())
def test_a_game_cut_off_at_any_byte_is_refused_with_its_place(game: Any, data: Any) -> None:
    whole = "".join(efg_write.write(game)).rstrip("\n").encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    try:
        efg.parse("cut.efg", whole[:at])
    except BadInputError as error:
        assert str(error).startswith("game cut.efg, line ")
    else:
        raise AssertionError(f"accepted {whole[:at]!r}")


@settings(max_examples=150, deadline=None)
@given(games, st.data())
def test_a_damaged_byte_is_never_a_traceback(game: Any, data: Any) -> None:
    whole = bytearray("".join(efg_write.write(game)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        efg.parse("damaged.efg", bytes(whole))
    except BadInputError as error:
        assert str(error).startswith("game damaged.efg, line ")
