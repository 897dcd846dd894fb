"""Which boot of the node this is. A node that comes back under its old name is another one for the fabric."""

import hashlib
from pathlib import Path


def incarnation(proc: Path = Path("/proc")) -> str:
    """Sixteen hexadecimal digits: the same for every plugin of one boot, others after a reboot.

    The start of process 1 is in it for nodes that share a kernel, where a reboot changes nothing else.
    """
    boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    started = (proc / "1/stat").read_text().rpartition(")")[2].split()[19]  # field 22, in ticks since boot
    return hashlib.sha256(f"{boot} {started}".encode()).hexdigest()[:16]
