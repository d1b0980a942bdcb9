"""The tool run in a fork of an interpreter that has modal imported already.

Importing and compiling is most of what a command costs, and the tests run some hundred of them.
The tool still runs as `__main__`, in a process of its own; nothing of it has been imported.
"""

import gc
import os
import sys
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

FORKS = get_context("forkserver")
# All that a command may import; a fork that lacks one of them is only slower.
FORKS.set_forkserver_preload(
    ["modal", "aiohttp", "certifi", "difflib", "statistics", "rich.progress_bar", "rich.table"]
)


def become(words: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Run the tool in this process, its streams as a shell's `<&- >out 2>err`."""
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        os.dup2(os.open(path, flags), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    sys.path[0] = os.path.dirname(words[0])  # noqa: PTH120 - as the interpreter itself sets it
    gc.freeze()  # to collect what was imported before would copy all of it
    code = SourceFileLoader("__main__", words[0]).get_code("__main__")
    assert code
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__file__ = words[0]
    try:
        exec(code, vars(main))
    except SystemExit as error:
        os._exit(int(error.code or 0))
    except BaseException:  # noqa: BLE001 - as the interpreter would tell it
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def run(
    words: list[str], environment: dict[str, str], out: Path, err: Path, *, patience: float
) -> int:
    """The exit status of the tool, of which nothing is left after so many seconds."""
    process = FORKS.Process(target=become, args=(words, environment, str(out), str(err)))
    process.start()
    process.join(patience)
    process.kill()
    process.join()
    status = process.exitcode
    assert status is not None
    return status
