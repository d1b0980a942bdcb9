"""An interpreter that has modal imported and runs the tool in a process of its own on demand.

Importing is most of what a command costs. Each line on standard input is a JSON object with the
words, the environment and the two files to write to; the answer is a line with the exit status.
The tool runs from its file, as `__main__`, in a fresh fork; nothing of it has been imported.
"""

import json
import os
import runpy
import sys

import aiohttp  # noqa: F401
import modal  # noqa: F401
import rich.progress_bar
import rich.table  # noqa: F401


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
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        os._exit(int(error.code or 0))
    except BaseException:  # noqa: BLE001 - as the interpreter would tell it
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            run(asked["words"], asked["environment"], asked["out"], asked["err"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
