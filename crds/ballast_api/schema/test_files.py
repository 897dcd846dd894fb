"""Generated files are what the models give."""

from pathlib import Path

import pytest
import yaml

from ballast_api.schema import __main__ as command
from ballast_api.schema import files


def test_the_repository_holds_what_the_models_give() -> None:
    assert files.differences(command.REPOSITORY) == [], "run `make crds`"


def test_check_fails_on_a_file_that_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REPOSITORY", tmp_path)
    assert command.main(["--write"]) == 0
    assert command.main(["--check"]) == 0
    page = tmp_path / "docs/reference.md"
    page.write_text(page.read_text(encoding="utf-8") + "edited", encoding="utf-8")
    assert command.main(["--check"]) == 1


def test_the_printed_crds_are_those_in_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    stored = [
        yaml.safe_load((command.REPOSITORY / path).read_text(encoding="utf-8"))
        for path in files.generated()
        if path.parent == Path("crds") and path.name != "kustomization.yaml"
    ]
    assert printed == stored
