"""What a running job says of itself over HTTP: /status as JSON, /healthz, /metrics for Prometheus.

A daemon thread serves; the kernels hold no interpreter lock, so it answers while they run. The solving thread
replaces one dictionary as a whole, and readers take whichever is there.
"""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from ballast_cfr.errors import BadInputError, SolverError
from ballast_cfr.game import Game
from ballast_cfr.solve.monitor import Snapshot
from ballast_cfr.writing import why


class Status:
    """The latest facts. `facts` is replaced, never changed."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {
            "phase": "Compiling",
            "iteration": 0,
            "exploitability": None,
            "exploitabilityIteration": None,
            "value": None,
            "iterationsPerSecond": None,
            "etaSeconds": None,
            "elapsedSeconds": 0.0,
            "checkpointIteration": None,
            "game": None,
            "instances": None,
            "instancesDone": None,
        }

    def set(self, **facts: Any) -> None:
        """Change some facts."""
        self.facts = {**self.facts, **facts}

    def describe(self, game: Game) -> None:
        """Say which game it is."""
        sizes = [int((game.infoset_player == player).sum()) for player in (0, 1)]
        slots = sum(map(len, game.infoset_actions))
        facts = {"name": game.name, "nodes": game.nodes, "infosets": sizes, "slots": slots}
        self.set(game={**facts, "hash": game.digest, "span": game.span})

    def follow(self, seen: Snapshot, **instead: Any) -> None:
        """Take over a snapshot of the solver, but for some facts."""
        found = seen.look.evaluation if seen.look else None
        facts = {
            "phase": "Solving",
            "iteration": seen.iteration,
            "exploitability": found.exploitability if found else None,
            "exploitabilityIteration": seen.look.iteration if seen.look else None,
            "value": found.value if found else None,
            "iterationsPerSecond": seen.rate,
            "etaSeconds": seen.eta,
            "elapsedSeconds": seen.seconds,
        }
        self.set(**facts | instead)


_GAUGES = {
    "iteration": ("ballast_cfr_iteration", "Iterations done."),
    "exploitability": ("ballast_cfr_exploitability", "Exploitability of the average strategy, in payoff units."),
    "exploitabilityIteration": (
        "ballast_cfr_exploitability_iteration",
        "Iteration at which the exploitability was taken.",
    ),
    "value": ("ballast_cfr_value", "Value for player 0 under the average strategies, in payoff units."),
    "iterationsPerSecond": ("ballast_cfr_iterations_per_second", "Iterations per second of late."),
    "etaSeconds": ("ballast_cfr_eta_seconds", "Seconds until the stop rule is met, by the present trend."),
    "elapsedSeconds": ("ballast_cfr_elapsed_seconds", "Seconds of solving, pauses excluded."),
    "checkpointIteration": ("ballast_cfr_checkpoint_iteration", "Iteration of the last checkpoint."),
    "instances": ("ballast_cfr_instances", "Solves of the batch."),
    "instancesDone": ("ballast_cfr_instances_done", "Solves of the batch that have ended."),
}


class _Collector:
    def __init__(self, status: Status) -> None:
        self.status = status

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        facts = self.status.facts
        for key, (name, text) in _GAUGES.items():
            if facts[key] is not None:
                yield GaugeMetricFamily(name, text, value=facts[key])


def _metrics(status: Status) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(status))
    return generate_latest(registry)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    status: Status

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service for this host's name and may wait for it for seconds.
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)


class _DualStackServer(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status = self.server.status
        if self.path == "/status":
            self._answer(200, "application/json", json.dumps(status.facts).encode())
        elif self.path == "/healthz":
            self._answer(200, "text/plain", b"ok\n")
        elif self.path == "/metrics":
            self._answer(200, "text/plain; version=0.0.4", _metrics(status))
        else:
            self._answer(404, "text/plain", b"try /status, /healthz or /metrics\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: probes would fill the log."""


def serve(status: Status, port: int) -> int:
    """Serve on all addresses from a daemon thread; returns the port (a free one for 0). Raises SolverError if it cannot
    be had."""
    if not 0 <= port <= 65535:
        raise BadInputError(f"status port is {port}, but must be from 0 to 65535")
    dual = socket.has_dualstack_ipv6()
    try:
        server = _DualStackServer(("::", port), _Handler) if dual else _Server(("", port), _Handler)
    except OSError as error:
        raise SolverError(f"status port {port} cannot be had: {why(error)}; choose another") from error
    server.status = status
    threading.Thread(target=server.serve_forever, name="status", daemon=True).start()
    return int(server.server_address[1])
