"""What the API server answers when it will not, as exceptions that callers can tell apart."""

import json
from typing import Any


class ApiError(Exception):
    """An answer other than success. status: HTTP code; reason: the server's CamelCase word; message: its sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @classmethod
    def read(cls, status: int, body: bytes, fallback: str) -> "ApiError":
        """From a response; anything between us and the server may have answered with something that is not a Status."""
        try:
            answer: Any = json.loads(body)
            return cls(status, str(answer.get("reason") or fallback), str(answer.get("message") or fallback))
        except (ValueError, AttributeError):
            return cls(status, fallback, f"HTTP {status} {fallback}: {body[:200].decode(errors='replace')}")

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def conflict(self) -> bool:
        return self.status == 409

    @property
    def forbidden(self) -> bool:
        return self.status == 403

    @property
    def invalid(self) -> bool:
        return self.status in (400, 422)

    @property
    def quota(self) -> bool:
        """A ResourceQuota stands in the way; the server says so only in words."""
        return self.forbidden and "exceeded quota" in self.message

    @property
    def terminating(self) -> bool:
        """The namespace is going away, so nothing new can be made in it."""
        return self.forbidden and "being terminated" in self.message


class ChildConflict(Exception):
    """An object of the name that a child needs exists and belongs to somebody else."""
