"""Environments with the modals that gyms lock, made once and kept in pytest's cache."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".pytest_cache"
# The newest gym locks 1.6.1, releases before it 1.5.5; 1.5.0 is the oldest that is spoken to.
# One test at a time: three processes that import an old modal at once keep a core busy for long.
OLD_MODALS = ("1.5.0", "1.5.5", "1.6.1")
ONE_AT_A_TIME = {version: threading.Lock() for version in OLD_MODALS}


@contextlib.contextmanager
def python_with(modal: str) -> Iterator[str]:
    """The interpreter of an environment with this modal."""
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "run the tests with `uv run pytest`: this one makes environments of its own"
    home = CACHE / f"modal-{modal}"
    python = home / "bin" / "python"
    with ONE_AT_A_TIME[modal]:
        if not (home / "complete").exists():
            subprocess.run([uv, "venv", "--quiet", "--clear", str(home)], check=True)
            into = ["--quiet", "--compile-bytecode", "--python", str(python)]
            subprocess.run([uv, "pip", "install", *into, f"modal=={modal}", "rich"], check=True)
            (home / "complete").touch()
        yield str(python)
