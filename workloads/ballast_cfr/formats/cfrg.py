"""Games as they lie in memory, in a file: read in a moment, however long they took to generate or to parse.

    8 bytes    "BALGAME" and the version, 0x01
    8 bytes    length of the header, little-endian
    header     JSON: name, players, bigBlind, labels, actions, arrays (name, shape, dtype), sha256
    arrays     little-endian, one after the other
    32 bytes   SHA-256 of everything before

`sha256` is the game's content hash: equal for equal games, whatever their name or the file they came from. A cache
that is keyed by it cannot mistake one game for another.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, TERMINAL, Game
from ballast_cfr.memory import demand, of_nodes

MAGIC = b"BALGAME\x01"
_DIGEST = 32
_ARRAYS = {
    "player": ("<i1", 1), "n_children": ("<i4", 1), "infoset": ("<i4", 1), "chance": ("<f8", 1), "payoff": ("<f8", 2),
    "infoset_player": ("<i1", 1),
}  # fmt: skip


def write(game: Game) -> Iterator[bytes]:
    """The bytes of a game's file, part by part."""
    arrays = {name: np.ascontiguousarray(getattr(game, name), dtype=dtype) for name, (dtype, _) in _ARRAYS.items()}
    header = {
        "name": game.name,
        "players": list(game.players),
        "bigBlind": game.big_blind,
        "labels": list(game.infoset_label),
        "actions": [list(names) for names in game.infoset_actions],
        "arrays": [{"name": name, "shape": array.shape, "dtype": array.dtype.str} for name, array in arrays.items()],
        "sha256": game.digest,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    whole = hashlib.sha256()
    for part in (MAGIC, len(text).to_bytes(8, "little"), text, *(array.tobytes() for array in arrays.values())):
        whole.update(part)
        yield part
    yield whole.digest()


def parse(name: str, content: bytes) -> Game:
    """Read the content of a .cfrg file; `name` is what errors call it. Raises BadInputError for anything that is not
    one whole, consistent game."""
    if content[:7] != MAGIC[:7]:
        raise BadInputError(f"game {name}: this is not a .cfrg file (it should begin with {MAGIC[:7].decode()})")
    if content[7:8] != MAGIC[7:]:
        found = content[7] if len(content) > 7 else "none"
        raise BadInputError(f"game {name}: format version {found} is not {MAGIC[7]}; use the release that wrote it")
    if len(content) < 48 or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise BadInputError(f"game {name}: the file is damaged or cut off (its digest does not match); export it again")
    try:
        header, arrays = _unpack(name, content)
        game = Game(
            name=str(header["name"]),
            players=tuple(map(str, header["players"])),
            infoset_label=[str(label) for label in header["labels"]],
            infoset_actions=[tuple(map(str, names)) for names in header["actions"]],
            big_blind=None if header["bigBlind"] is None else float(header["bigBlind"]),
            **arrays,
        )
        digest = header["sha256"]
        for names in (game.players, game.infoset_label, *game.infoset_actions):
            "".join(names).encode()  # a lone surrogate, which JSON can hold, is no text that could be written
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInputError(f"game {name}: the header does not fit the format ({error}); export it again") from error
    _check(name, game)
    if game.digest != digest:
        raise BadInputError(f"game {name}: the content hash {digest} is not this game's; export it again")
    return game


def _unpack(name: str, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    length = int.from_bytes(content[8:16], "little")
    header = json.loads(content[16 : 16 + length])
    arrays: dict[str, Any] = {}
    at = 16 + length
    for entry in header["arrays"]:
        dtype, dimensions = _ARRAYS[entry["name"]]
        shape = tuple(map(int, entry["shape"]))
        if entry["dtype"] != np.dtype(dtype).str or len(shape) != dimensions or min(shape) < 0:
            raise ValueError(f"array {entry['name']} is {entry['dtype']} {shape}")
        if entry["name"] == "player":
            demand(f"game {name} has {shape[0]:,} nodes and", of_nodes(shape[0]))
        count = int(np.prod(shape, dtype=np.int64))
        arrays[entry["name"]] = np.frombuffer(content, dtype=dtype, count=count, offset=at).reshape(shape).copy()
        at += count * np.dtype(dtype).itemsize
    if at != len(content) - _DIGEST:
        raise ValueError(f"{len(content) - _DIGEST - at} bytes are left over")
    return header, arrays


def _check(name: str, game: Game) -> None:
    """Refuse arrays that do not make a tree; what they mean is `validate`'s to judge."""
    for what, holds in _facts(game):
        if not holds:
            raise BadInputError(
                f"game {name}: the arrays are no game, since it does not hold that {what}; export it again"
            )


def _facts(game: Game) -> Iterator[tuple[str, bool]]:
    """What must hold, one thing after the other: each may rely on those before."""
    n, infosets = game.nodes, len(game.infoset_player)
    yield "there are nodes", n > 0
    yield "arrays are as long as there are nodes", len(game.n_children) == len(game.infoset) == len(game.chance) == n
    yield "information sets have labels and actions", len(game.infoset_label) == len(game.infoset_actions) == infosets
    counts = game.n_children.astype(np.int64)
    yield "children add up", bool((counts >= 0).all()) and int(counts.sum()) == n - 1
    yield "a parent comes before its children", bool((np.cumsum(counts)[:-1] >= np.arange(1, n)).all())
    yield "players are known", bool(((game.player >= TERMINAL) & (game.player < len(game.players))).all())
    yield "leaves are terminals", bool(((counts == 0) == (game.player == TERMINAL)).all())
    terminals = int((game.player == TERMINAL).sum())
    yield "every terminal pays every player", game.payoff.shape == (terminals, len(game.players))
    decision = game.player >= 0
    own = game.infoset[decision]
    known = ((own >= 0) & (own < infosets)).all() and (game.infoset[~decision] == -1).all()
    yield "information sets are known", bool(known)
    yield "information sets belong to who moves", bool((game.infoset_player[own] == game.player[decision]).all())
    first = np.unique(own, return_index=True)[1]
    yield (
        "information sets are numbered by first appearance",
        len(first) == infosets and bool((np.diff(first) > 0).all()),
    )
    drawn = np.repeat(game.player == CHANCE, counts)
    yield "only chance has probabilities", game.chance[0] == 1 and bool((game.chance[1:][~drawn] == 1).all())
    yield "the big blind is a positive number", game.big_blind is None or 0 < game.big_blind < math.inf
    many = np.array([len(names) for names in game.infoset_actions], dtype=np.int64)
    yield "actions fit the tree", bool((many[own] == counts[decision]).all())
