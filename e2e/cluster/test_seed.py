import os
from pathlib import Path

import pytest

from e2e.cluster import seed


def test_only_the_seeds_used_last_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(seed, "_import", lambda archives, bases, root: root.mkdir(parents=True))
    made = []
    for age, name in enumerate(["a.tar", "b.tar"]):
        made.append(seed.ensure([Path(name)]))
        os.utime(made[-1], (age, age))
    again = seed.ensure([Path("a.tar")])  # the older one is used, and so stays
    third = seed.ensure([Path("c.tar")])
    assert again == made[0]
    assert set(third.parent.iterdir()) == {again, third}
