"""Files in the runtime's folder, one a claim. A reader sees a whole file or none, whenever the writer dies.

The folder lies in memory on most systems, so a reboot empties it; nothing here may be the only copy of anything.
"""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ballast_cxl.cdi import KIND, rules

_PREFIX = KIND.replace("/", "-") + "_"


class BadDocument(ValueError):
    """What was to be written is not what the specification allows; a runtime would refuse every device of ours."""


@dataclass(frozen=True)
class Store:
    """The files of ours in one folder."""

    folder: Path

    def path(self, claim_uid: str) -> Path:
        """As the specification names the file of something that comes and goes: vendor, class, identity."""
        return self.folder / f"{_PREFIX}{claim_uid}.json"

    def write(self, claim_uid: str, document: dict[str, Any]) -> None:
        """Put the claim's file there whole, or raise: BadDocument, or OSError when the folder cannot be written."""
        if faults := rules.check(document):
            raise BadDocument(f"CDI file of claim {claim_uid}: {'; '.join(faults)}")
        text = json.dumps(document, indent=1) + "\n"
        if self.read(claim_uid) == document:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=".ballast-", suffix=".tmp", dir=self.folder)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o644)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).rename(self.path(claim_uid))
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
        self._settle()

    def read(self, claim_uid: str) -> dict[str, Any] | None:
        """The claim's document, or None if there is none that can be read."""
        try:
            found: dict[str, Any] = json.loads(self.path(claim_uid).read_text())
        except (OSError, ValueError):
            return None
        return found

    def remove(self, claim_uid: str) -> None:
        """Take the claim's file away; nothing to do if there is none."""
        self.path(claim_uid).unlink(missing_ok=True)

    def claims(self) -> set[str]:
        """Identities of the claims that have a file."""
        return {path.stem.removeprefix(_PREFIX) for path in self.folder.glob(f"{_PREFIX}*.json")}

    def sweep(self, keep: set[str]) -> set[str]:
        """Remove files of claims that are not to be kept, and what a writer that died left; the claims removed."""
        for scratch in self.folder.glob(".ballast-*.tmp"):
            scratch.unlink(missing_ok=True)
        gone = self.claims() - keep
        for claim_uid in gone:
            self.remove(claim_uid)
        return gone

    def _settle(self) -> None:
        """The rename itself must survive a crash of the machine."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
