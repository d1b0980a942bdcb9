"""Environments with the modals that gyms lock, made once and kept in pytest's cache."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".pytest_cache"
# The newest gym locks 1.6.1, releases before it 1.5.5; 1.5.0 is the oldest that is spoken to.
OLD_MODALS = ("1.5.0", "1.5.5", "1.6.1")


def python_with(modal: str) -> str:
    """The interpreter of an environment with this modal, of the Python that runs the tests."""
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "run the tests with `uv run pytest`: this one makes environments of its own"
    home = CACHE / f"{sys.implementation.cache_tag}-modal-{modal}"
    python = home / "bin" / "python"
    CACHE.mkdir(exist_ok=True)
    # Workers run beside each other: the first makes it, the others wait until it is whole.
    with (CACHE / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            own = ["--quiet", "--clear", "--python", sys.executable]
            subprocess.run([uv, "venv", *own, str(home)], check=True)
            into = ["--quiet", "--compile-bytecode", "--python", str(python)]
            subprocess.run([uv, "pip", "install", *into, f"modal=={modal}", "rich"], check=True)
            (home / "complete").touch()
    return str(python)
