"""An interpreter that has modal imported and runs the tool in a process of its own on demand.

Importing and compiling is most of what a command costs. Each line on standard input is a JSON
object with the words, the environment and the two files to write to; the answer is a line with
the exit status. The tool runs as `__main__`, in a fresh fork; nothing of it has been imported.
"""

import difflib  # noqa: F401
import functools
import gc
import json
import os
import statistics  # noqa: F401
import sys
from pathlib import Path
from types import CodeType, ModuleType

import aiohttp  # noqa: F401
import certifi  # noqa: F401
import modal  # noqa: F401
import rich.cells
import rich.progress_bar
import rich.table


@functools.cache
def compiled(script: str) -> CodeType:
    return compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)


def run(words: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Become the command; this never comes back."""
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        os.dup2(os.open(path, flags), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    sys.path[0] = os.path.dirname(words[0])  # noqa: PTH120 - as the interpreter itself sets it
    try:
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compiled(words[0]), vars(sys.modules["__main__"]))
    except SystemExit as error:
        os._exit(int(error.code or 0))
    except BaseException:  # noqa: BLE001 - as the interpreter would tell it
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main() -> None:
    rich.cells.cell_len("…")  # which reads the widths of characters
    gc.freeze()  # a fork that collects what was imported here would copy all of it
    for line in sys.stdin:
        asked = json.loads(line)
        compiled(asked["words"][0])
        child = os.fork()
        if child == 0:
            run(asked["words"], asked["environment"], asked["out"], asked["err"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
