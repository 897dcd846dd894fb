from __future__ import annotations

import json
from pathlib import Path

from ballast_serving import tiny


def test_every_byte_has_a_letter_of_its_own() -> None:
    letters = tiny.bytes_to_letters()
    assert len(set(letters.values())) == 256
    assert letters[ord("a")] == "a"
    assert letters[ord(" ")] == "Ġ"


def test_the_model_folder_is_complete_and_consistent(tmp_path: Path) -> None:
    tiny.write(tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    tokenizer = json.loads((tmp_path / "m/tokenizer.json").read_text())
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    assert sorted(ids) == list(range(259))
    assert max(ids) < config["vocab_size"]
