#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["modal>=1.5.0", "rich>=13.7"]
# ///
"""How far is a run of modal-dojo (modal-training-gym), what is it doing, and what is it stuck on?

usage: run_progress.py RUN [--tail N | --no-logs | --follow | --watch] [--json]
       run_progress.py [--limit N] [--watch] [--json]

RUN is any scrap of an id, ignoring case: a run id, a Modal app id, a W&B run id,
a prefix or a substring of a run id, or a pasted Modal or W&B URL ending in one.
Without RUN, the newest runs are listed, those that need somebody first.

  -n, --tail N     show the last N log entries, 1 to 20,000 (default: 200)
  --no-logs        show the metadata alone: fast
  -f, --follow     stream the logs of a live run until it ends, or Ctrl-C
  --watch          show the run again and again until it ends; through a pipe, its changes
  --interval S     seconds between two looks of --watch, at least 2 (default: 15)
  --limit N        list the newest N runs (default: 20)
  --hardware       ask what Modal knows of containers and GPUs, also where all seems well
  --json           print JSON instead: the run, the list, or the error
  -e, --env ENV    the Modal environment (default: the profile's)
  --volume NAME    the volume of a fork or a copy (default: the gym's own, new or old name)
  --timeout S      seconds that the reading, and again the tail, may take (default: 60)
  --show-secrets   show credentials whole, not as their first four characters and …
  --debug          show the traceback of an error
  -h, --help       show this text

examples:
  run_progress.py elastic-frog-a1b2c3d4e5f6
  run_progress.py elastic --no-logs
  run_progress.py --limit 5
  run_progress.py ap-0123456789abcdefABCDEF --tail 50
  run_progress.py https://modal.com/id/ap-0123456789abcdefABCDEF --follow

exit status:
  0    the run or the list was shown; a watched run completed
  1    something could not be read: Modal, the token, the volume, the logs; the rest is shown
  2    the command line is wrong
  3    no run matches
  4    several runs match; they are listed
  5    a watched run ended without completing
  130  interrupted

It only ever reads: the volume modal-dojo-metadata, or training-gym-metadata as it was called
before, the state of the run's app, its logs, and at times its containers, calls and GPUs.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import IO, NoReturn


def is_screen(stream: IO[str] | None) -> bool:
    """Whether it is a terminal that can be steered; any other is written to as a pipe is."""
    dumb = os.environ.get("TERM", "").casefold() in ("dumb", "unknown")
    refused = "0" in (os.environ.get("TTY_COMPATIBLE"), os.environ.get("TTY_INTERACTIVE"))
    return stream is not None and stream.isatty() and not dumb and not refused


def leave(number: int, _frame: object = None) -> NoReturn:
    """Die of a signal at once, with the terminal as it was: a shell's loop then ends too."""
    if is_screen(sys.stderr):
        os.write(2, b"\r\x1b[2K\x1b[?25h")  # the spinner's line and the cursor that it hid
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)  # should it be blocked


if __name__ == "__main__":  # before the imports below: they take long enough to be interrupted
    # What was started ends with this process, whatever ends that: `CHILD` sees to it.
    for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(deadly) is not signal.SIG_IGN:
            signal.signal(deadly, leave)

import argparse
import asyncio
import contextlib
import difflib
import io
import itertools
import json
import logging
import math
import re
import select
import shutil
import statistics
import subprocess
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import modal
    from _typeshed import DataclassInstance
    from modal.types import FileEntry, FunctionInfo, MetricSeries
    from rich.console import Console, RenderableType
    from rich.table import Table

    AnyFunction: TypeAlias = modal.Function[..., object, object]

T = TypeVar("T")
Number = TypeVar("Number", int, float)

# ======================================================================================
# Records: what the volume's JSON means. All knowledge of field names and old shapes is
# here; what leaves this section is checked, cleaned and in seconds, unknown is None. No line
# is cut here: a credential that is cut in two is no longer known as one.
# ======================================================================================

Seconds: TypeAlias = float
EpochSeconds: TypeAlias = float
# When it began, its name, and what it took.
Phase: TypeAlias = tuple[float, str, Seconds]

# Lines of an error message that are kept: its head, and its end, where a traceback says why.
ERROR_HEAD, ERROR_END = 10, 3
# The last second that a datetime can hold; what lies beyond is no time.
YEAR_10000 = 253_402_300_800
# Counts beyond this (2^53) are noise: JSON numbers stop being exact there.
COUNT_LIMIT = 2**53
# Newest notices of a kind that are read, where there may be thousands: any of them is the newest.
NEWEST_UPDATES = 8

TIMES = ("created_at", "started_at", "updated_at", "ended_at")
ENDED_STATUSES = frozenset({"completed", "failed", "stopped", "cancelled"})
LIVE_STATES = frozenset({"ephemeral", "detached", "deployed", "initializing"})  # of an app
STATUSES = {status: status for status in ("running", *ENDED_STATUSES)} | {"canceled": "cancelled"}
# The set-up, in its order; the stages of a launcher; what comes before the loop; phases of a step
# before its rollout is recorded, once it is trained, and from the one to the other.
SET_UP = ("initializing", "download_model", "convert_model", "prepare_dataset")
LAUNCHED = frozenset(SET_UP[:3])
BEFORE_THE_LOOP = frozenset({*SET_UP, "initialize_rollouts", "serving"})
NO_ROLLOUT_YET = BEFORE_THE_LOOP | {"generate_rollouts", "evaluate_rollouts"}
TRAINED = frozenset({"checkpoint_save", "offload_train", "weight_sync"})
TRAINING = TRAINED | {"offload_rollout", "compute_log_probs", "optimizer_step"}
PHASES = TRAINING | NO_ROLLOUT_YET | {"training"}
# What the gym's own step time leaves out.
BESIDE_THE_STEP = frozenset({"checkpoint_save", "evaluate_rollouts", "evaluate_rollouts_end"})
APP_ID = re.compile(r"ap-[A-Za-z0-9]{1,64}")
NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
HTTPS_URL = re.compile(r"https://[^\s\"'<>\\`]+")
STEP_KEY = re.compile(r"\d{1,15}")
# CSI and OSC sequences (7 and 8 bit), then any other escape with its one final character.
ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


@dataclass(frozen=True)
class Step:
    """Where the training loop is; `current` is 1-based."""

    current: int
    total: int | None
    unit: str


@dataclass(frozen=True)
class Timings:
    """How long each phase of one whole step took."""

    step: int
    phases: tuple[tuple[str, Seconds], ...]
    total: Seconds


@dataclass(frozen=True)
class Rollout:
    """One recorded rollout; `error_summary` is worded."""

    rollout_id: int
    created_at: EpochSeconds | None = None
    samples: int | None = None
    mean_reward: float | None = None
    seconds: Seconds | None = None
    error_summary: str | None = None


@dataclass(frozen=True)
class Metric:
    """The newest value of a metric, NaN included; `step` is its logger's own."""

    name: str
    value: float
    step: int
    at: EpochSeconds | None


@dataclass(frozen=True)
class Run:
    """A TrainingRun record."""

    run_id: str
    kind: Literal["rl", "sft", "gateway"]
    framework: str | None
    status: str | None
    phase: str | None
    waiting_for_gpu: bool
    submitted: bool  # its training waits for its GPUs
    step: Step | None
    app_id: str | None
    app_id_malformed: bool
    url: str | None
    created_at: EpochSeconds | None
    started_at: EpochSeconds | None
    ended_at: EpochSeconds | None
    last_sign: EpochSeconds | None  # of life, the newest that the record holds
    reason: str | None
    error: tuple[str, ...]
    wandb_ids: tuple[str, ...]
    model: str | None
    dataset: str | None
    phase_began: EpochSeconds | None
    unread_times: tuple[str, ...]
    attempt: int | None = None
    attempt_failed_at: EpochSeconds | None = None
    resumed_from: str | None = None
    resume_point: int | None = None  # the last rollout that the attempt goes on from, -1: none
    batch_size: str | None = None  # the sizes that the automatic one tried, each with its outcome
    batch_began: EpochSeconds | None = None  # the newest of these tries
    attempt_began: EpochSeconds | None = None
    latest_rollout: Rollout | None = None
    steps: tuple[Timings, ...] = ()  # the whole ones, newest first
    asynchronous: bool = False

    @property
    def timings(self) -> Timings | None:
        """Those of the latest whole step."""
        return self.steps[0] if self.steps else None

    @property
    def last_whole_step(self) -> int:
        """The newest step that can be whole: the one below the current one, while it runs."""
        return self.step.current - (self.status != "completed") if self.step else COUNT_LIMIT

    @property
    def last_rollout_id(self) -> int:
        """The newest rollout that must have been recorded by now, -1 for none."""
        latest = self.latest_rollout.rollout_id if self.latest_rollout else -1
        return max(latest, self.step.current - 2 if self.step else -1)  # before that under way

    @property
    def expects_no_rollout(self) -> bool:
        """Whether the run is known to be before the end of its first rollout."""
        first = self.step.current <= 1 if self.step else self.phase in BEFORE_THE_LOOP
        return self.phase in NO_ROLLOUT_YET and first and self.latest_rollout is None

    def began_after(self, moment: EpochSeconds | None) -> bool:
        """Whether that was in an attempt before the one under way."""
        again = self.attempt_began if (self.attempt or 0) > 1 else None
        return bool(again and moment and moment < again)

    @property
    def begun(self) -> bool:
        """Whether the training loop has begun: then it has an app, recorded or not."""
        return (self.step is not None and self.step.current > 0) or self.latest_rollout is not None

    @property
    def waits(self) -> bool:
        """Whether it waits for GPUs, by its record."""
        return self.waiting_for_gpu or self.submitted

    @property
    def ended(self) -> bool:
        """Whether the run is over: by its status, or by its end where that is some other word."""
        over = self.status in ENDED_STATUSES or self.ended_at is not None
        return over and self.status != "running"


@dataclass(frozen=True)
class App:
    """What Modal says of an app; `live` is None where it could not say, `unknown` tells why."""

    live: bool | None
    state: str = ""
    stopped_at: EpochSeconds | None = None
    stopped_by: str | None = None
    unknown: str | None = None
    functions: tuple[tuple[str, str], ...] = ()  # names and ids, where the look-up told them


@dataclass(frozen=True)
class Hardware:
    """What Modal itself knows of an app; None is what it did not tell, and `unknown` says why.

    `function` is the one that trains, whose GPUs and newest call are told of.
    """

    containers: int | None = None
    waiting_inputs: int | None = None
    container_errors_last_hour: int | None = None
    function: str | None = None
    function_containers: int | None = None
    call_status: str | None = None
    call_limit: Seconds | None = None
    gpu_idle_seconds: Seconds | None = None
    gpu_idle_whole_hour: bool = False
    unknown: str | None = None


def clean(text: str) -> str:
    """Drop what could steer a screen: escapes, control, direction and unprintable characters."""
    if text.isprintable():  # as nearly all is
        return text
    text = ESCAPE.sub("", text)
    unprintable = (character for character in set(text) if not character.isprintable())
    return text.translate({ord(c): None for c in unprintable if unicodedata.category(c) != "Zs"})


def is_run_id(text: str) -> bool:
    """Whether it can be the name of a record's file and of a line, whoever gave it."""
    return bool(text) and text.isprintable() and "/" not in text


def parse_json(raw: bytes) -> object:
    """Decode a file of the volume; ValueError with the reason where it is not JSON."""
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deep") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error}; {len(raw):,} bytes)") from None


def _member(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _scalar(value: object, *keys: str) -> object:
    """The member under `keys`, taken out of the old stores' {"value": X} wrapping."""
    found = _member(value, *keys)
    while isinstance(found, dict) and "value" in found:
        found = found["value"]
    return found


def _text(value: object, *keys: str) -> str | None:
    found = _scalar(value, *keys)
    if not isinstance(found, str):
        return None
    return clean(found).strip() or None


def _number(value: object, *keys: str) -> float | None:
    found = _scalar(value, *keys)
    if isinstance(found, str) and NUMBER.fullmatch(found):
        found = float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) <= COUNT_LIMIT else None  # which NaN is not, either


def _measure(value: object, *keys: str) -> float | None:
    """A number of any size, NaN and infinity included: a run that diverged must not look well."""
    found = _scalar(value, *keys)
    return found if isinstance(found, float) else _number(found)


def _count(value: object, *keys: str) -> int | None:
    number = _number(value, *keys)
    return int(number) if number is not None and number >= 0 and number.is_integer() else None


def _duration(value: object, *keys: str) -> Seconds | None:
    number = _number(value, *keys)
    return number if number is not None and 0 <= number < YEAR_10000 else None


def _time(value: object, *keys: str) -> EpochSeconds | None:
    """A time from a number, a number in a string, or ISO 8601 (UTC where it has no zone)."""
    found = _scalar(value, *keys)
    number = _number(found) or 0
    if not number and isinstance(found, str):
        with contextlib.suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(found.strip())
            number = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if 1e12 <= number < 1e13:  # noqa: PLR2004 - 13 digits: milliseconds
        number /= 1_000
    return number if 0 < number < YEAR_10000 else None


def _items(value: object, *keys: str) -> Iterable[tuple[str, object]]:
    found = _member(value, *keys)
    return found.items() if isinstance(found, dict) else ()


def _elements(value: object, *keys: str) -> Iterable[object]:
    found = _member(value, *keys)
    return found if isinstance(found, list) else ()


def _known(found: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in found if text))


def _newest(found: Iterable[Number | None]) -> Number | None:
    """The newest time, or the largest id, of those that are known."""
    return max((number for number in found if number is not None), default=None)


def parse_run(record: object, run_id: str) -> Run:
    """Make a Run from a record of any age; `run_id` is its key in the volume."""
    metadata, config = _member(record, "metadata"), _member(record, "config")
    prompts = _text(config, "dataset", "prompt_data") or _text(config, "recipe", "prompt_data")
    progress = _member(metadata, "framework_progress")
    phase = _parse_phase(record, progress)
    # What the progress says, if it is said of the phase that is shown.
    said = progress if phase == _text(progress, "phase") else None
    status = STATUSES.get((_text(record, "status") or "").casefold(), _text(record, "status"))
    latest = _member(metadata, "latest_rollout")
    open_substeps = _open_substeps(record, progress)
    app_id = next(iter(app_ids(record)), None)
    started, created = _time(record, "started_at"), _time(record, "created_at")
    starts = [_time(start) for start in _elements(metadata, "attempt_starts")]
    attempt_began = _time(metadata, "last_attempt_started_at") or _newest(starts)
    attempts = _count(metadata, "attempt_count")
    untrained = not (attempts or attempt_began or latest or _count(progress, "current"))
    # Said of no phase at all, too; of any but these it says nothing.
    inactive = phase in {None, *LAUNCHED} and _is_false(said, "is_active")
    called = phase in LAUNCHED and _text(record, "function_call_id") is not None
    run = Run(
        run_id=run_id,
        kind=_parse_kind(record),
        framework=_text(record, "framework"),
        status=status,
        phase=phase,
        waiting_for_gpu=inactive and status not in ENDED_STATUSES,
        submitted=called and untrained and status == "running" and not inactive,
        step=_parse_step(progress),
        app_id=app_id,
        app_id_malformed=app_id is None and _scalar(record, "modal_app_id") not in (None, ""),
        url=_parse_url(record, app_id),
        created_at=created,
        # Older gyms wrote it; the newest writes its launch there, which is when it was created.
        started_at=next(filter(None, starts), None) or (None if started == created else started),
        ended_at=_time(record, "ended_at") or _time(record, "completed_at"),
        last_sign=last_sign(record),
        reason=_text(metadata, "terminal_reason"),
        error=_parse_error(record),
        # Older gyms made one of the run id.
        wandb_ids=wandb_ids(record) or ((run_id[:8],) if _member(config, "wandb") else ()),
        model=_text(config, "model", "model_name"),
        dataset=_text(config, "dataset", "hf_repo") or prompts or _text(config, "dataset", "name"),
        phase_began=open_substeps.get(phase or "") or _time(said, "updated_at"),
        unread_times=tuple(t for t in TIMES if _scalar(record, t) and not _time(record, t)),
        attempt=attempts or len(starts) or None,
        attempt_began=attempt_began,
    )
    return _with_attempt(run, record)


def _with_attempt(run: Run, record: object) -> Run:
    """With what only the attempt under way tells, or what it goes on from."""
    metadata = _member(record, "metadata")
    ended, began = _time(metadata, "last_attempt_ended_at"), run.attempt_began or 0
    # Else another one has begun since.
    failed = _text(metadata, "last_attempt_status") == "failed" and (ended or 0) >= began
    checkpoint = _text(metadata, "resume_checkpoint_name")
    iteration = _count(metadata, "resume_from_iteration")
    if iteration is None and (named := re.fullmatch(r"\D*(\d{1,15})", checkpoint or "")):
        iteration = int(named[1])
    numbered = None if iteration is None else f"iteration {iteration}"
    batch_size, batch_began = _parse_batch(_member(metadata, "batch_size_inference"))
    run = replace(
        run,
        attempt_failed_at=ended if failed else None,
        resumed_from=checkpoint or _text(metadata, "resumed_from_checkpoint") or numbered,
        resume_point=-1 if _is_false(metadata, "resumed_from_checkpoint") else iteration,
        batch_size=batch_size,
        batch_began=batch_began,
    )
    rollout = _parse_rollout(_member(metadata, "latest_rollout"))
    latest = next(iter(kept(run, [rollout] if rollout else ())), None)
    return replace(run, steps=tuple(_recorded_steps(record, run)), latest_rollout=latest)


def _parse_phase(record: object, progress: object) -> str | None:
    """That of the progress, since the status may lag behind it."""
    status, phase = _text(record, "framework_status"), _text(progress, "phase")
    if status is None or phase is None:
        return status or phase
    if status in SET_UP and phase in SET_UP:
        return max(status, phase, key=SET_UP.index)
    # A launcher's mark stays there when the loop has begun.
    marked = _scalar(progress, "is_active") is not None
    return phase if {status, phase} <= PHASES and not marked else status


def _parse_kind(record: object) -> Literal["rl", "sft", "gateway"]:
    if _text(record, "metadata", "run_type") == "tinker_gateway":
        return "gateway"
    return "sft" if _text(record, "config", "recipe", "loss_type") == "sft_loss" else "rl"


def _parse_batch(inference: object) -> tuple[str | None, EpochSeconds | None]:
    """`max_tokens_per_gpu 16384 oom → 8192 running`, and when the newest of these tries began."""
    tries = [each for each in _elements(inference, "attempts") if _count(each, "value") is not None]
    ends = (f"{_count(each, 'value')} {_text(each, 'outcome') or 'unknown'}" for each in tries)
    knob = _text(inference, "knob") or "batch size"
    began = _newest(_time(each, "started_at") for each in tries)
    return f"{knob} {' → '.join(ends)}" if tries else None, began


def named_ids(record: object) -> tuple[str, ...]:
    """The function call, the sweep, and the app where it has a name of its own."""
    keys = (("function_call_id",), ("group_id",), ("metadata", "group_id"), ("app_name",))
    return _known(_text(record, *path) for path in keys)


def created_at(record: object) -> EpochSeconds | None:
    """When the run, or the rollout of a row, was created."""
    return _time(record, "created_at")


def last_sign(record: object) -> EpochSeconds | None:
    """The newest sign of life that the record itself holds."""
    metadata = _member(record, "metadata")
    progress = _member(metadata, "framework_progress")
    attempts = (
        _member(metadata, "last_attempt_started_at"),
        *_elements(metadata, "attempt_starts"),
    )
    signs = (_time(record, "updated_at"), _time(progress, "updated_at"), *map(_time, attempts))
    began = _open_substeps(record, progress).values()
    return _newest((*signs, created_at(_member(metadata, "latest_rollout")), *began))


def kept(run: Run, rollouts: Iterable[Rollout]) -> tuple[Rollout, ...]:
    """Those that count: not what an attempt before this one recorded beyond where it goes on."""
    # What stands there in fine-tuning is no reward.
    rollouts = [replace(r, mean_reward=None) if run.kind == "sft" else r for r in rollouts]
    mine = [rollout.rollout_id for rollout in rollouts if not run.began_after(rollout.created_at)]
    point = run.resume_point
    if point is None:  # where it isn't recorded: its first rollout, or its step, tells
        point = min(mine, default=run.step.current - 1 if run.step else 0) - 1
    return tuple(r for r in rollouts if r.rollout_id <= point or not run.began_after(r.created_at))


def step_borne_out(run: Run, rollouts: Sequence[Rollout]) -> Run:
    """The run with a step that its rollouts allow: after a resume, it can be an old one."""
    point = run.resume_point
    if run.step is None or point is None or (run.attempt or 0) <= 1:
        return run
    recorded = max((rollout.rollout_id for rollout in rollouts), default=point)
    under_way = max(recorded, point) + (1 if run.phase in TRAINING and not run.asynchronous else 2)
    if run.step.current <= under_way:
        return run
    run = replace(run, step=replace(run.step, current=under_way))
    return replace(run, steps=tuple(each for each in run.steps if each.step <= run.last_whole_step))


def _is_false(value: object, key: str) -> bool:
    return str(_scalar(value, key)).strip().casefold() == "false"


def _parse_step(progress: object) -> Step | None:
    current, rollout_id = _count(progress, "current"), _count(progress, "rollout_id")
    if current is None and rollout_id is not None:
        current = rollout_id + 1
    total, unit = _count(progress, "total") or None, _text(progress, "unit") or "step"
    return None if current is None else Step(current, total, unit)


def app_ids(record: object) -> tuple[str, ...]:
    """The app, if the run has one."""
    found = _scalar(record, "modal_app_id")
    field = found.strip() if isinstance(found, str) else ""
    if HTTPS_URL.fullmatch(field):
        with contextlib.suppress(ValueError):  # the whole of such a URL is no id either
            field = urlsplit(field).path.rstrip("/").rpartition("/")[2]
    return (field,) if APP_ID.fullmatch(field) else ()


def _parse_url(record: object, app_id: str | None) -> str | None:
    recorded = (_text(record, key) for key in ("modal_app_url", "modal_app_id"))
    made = f"https://modal.com/id/{app_id}" if app_id else None
    return next((url for url in recorded if url and HTTPS_URL.fullmatch(url)), made)


def _parse_error(record: object) -> tuple[str, ...]:
    found = _scalar(record, "error_message")
    if not isinstance(found, str):
        return ()
    cleaned = (clean(line.expandtabs(4)).rstrip() for line in found.splitlines())
    lines = [line for line in cleaned if line]
    left_out = len(lines) - ERROR_HEAD - ERROR_END
    if left_out <= 1:
        return tuple(lines)
    return (*lines[:ERROR_HEAD], f"… {left_out} more lines …", *lines[-ERROR_END:])


def wandb_ids(record: object) -> tuple[str, ...]:
    """The recorded ones: one made of the run id is its prefix, which several runs may have."""
    config, metadata = _member(record, "config"), _member(record, "metadata")
    blocks = (_member(config, "wandb"), _member(config, "metrics"))
    attempts = (*_elements(metadata, "wandb_attempts"), *_elements(metadata, "metric_attempts"))
    return _known(_text(source, "run_id") for source in (*blocks, *attempts))


# ======================================================================================
# Records beside the run's own: timings, rows, notices and metrics, known here alone, too.
# ======================================================================================

# ---- Timings: in files, or as older gyms wrote them in the record itself.


def _lasted(span: object) -> tuple[float, Seconds] | None:
    """When it began, 0 if unknown, and what it took, in any gym's words or as `[start, end]`."""
    for key in ("busy_duration_s", "total_duration_s", "duration_s"):
        if (seconds := _duration(span, key)) is not None:
            # Counted from the lane's start, or from the epoch.
            return _number(span, "first_start_s") or _time(span, "start") or 0, seconds
    start, end = _time(span, "start"), _time(span, "end")
    if isinstance(span, list) and len(span) == 2:  # noqa: PLR2004 - [start, end]
        start, end = map(_number, span)
    return None if start is None or end is None or end < start else (start, end - start)


def _phases_of(phases: object) -> list[Phase]:
    """What each took that is over, in any of its shapes, by their start."""
    found: list[Phase] = []
    for name, phase in _items(phases):
        spans = [span for each in _elements(phase) or [phase] if (span := _lasted(each))]
        if spans:
            found.append((min(spans)[0], clean(name), sum(seconds for _, seconds in spans)))
    return sorted(found, key=lambda phase: phase[0])


def _open_substeps(record: object, progress: object) -> dict[str, EpochSeconds]:
    """The substeps of the step under way that are not over, and when each began."""
    steps = [int(key) for key, _ in _items(record, "substep_times") if STEP_KEY.fullmatch(key)]
    current = _count(progress, "current") or max(steps, default="")
    under_way = _items(record, "substep_times", str(current))
    started = {name: _time(substep, "start") for name, substep in under_way if not _lasted(substep)}
    return {name: start for name, start in started.items() if start is not None}


def _recorded_steps(record: object, run: Run) -> Iterator[Timings]:
    """The whole steps of `step_times` and `substep_times`, newest first."""
    timed = _phases_of(_member(record, "step_times"))
    measured = {step: (began, seconds) for began, step, seconds in timed}
    keys = {*measured, *dict(_items(record, "substep_times"))}
    steps = sorted((int(key) for key in keys if STEP_KEY.fullmatch(key)), reverse=True)
    last = run.step.current if run.step else max(steps, default=0)
    for step in steps:
        substeps = dict(_items(record, "substep_times", str(step)))
        phases = _phases_of(substeps)
        began, total = measured.get(str(step), (0, None))
        # Where it was not measured, the step is whole once a later one has begun.
        whole = step < last and phases and len(phases) == len(substeps)
        if total is None and whole and phases[0][0]:
            # From the first start to the last end, since phases can overlap.
            total = max(start + seconds for start, _, seconds in phases) - phases[0][0]
        # Those beyond the current one, too, are of an attempt before this one.
        if total is not None and step <= last and not run.began_after(began):
            yield Timings(step, tuple(phase[1:] for phase in phases), total)


def _numbered(written: Mapping[str, int], pattern: str) -> list[tuple[int, int, str]]:
    """The files of a folder with such a name: when written, the number in it, and the name."""
    fullmatch = re.compile(pattern).fullmatch
    found = ((at, fullmatch(name)) for name, at in written.items())
    return sorted((at, int(match[1]), match.string) for at, match in found if match)


def newest_timing_files(written: Mapping[str, int], steps: int) -> dict[int, str]:
    """The driver's files of `substep-timing/<run_id>/` for the newest steps, by their rollout."""
    # Its phases alone lie end to end, and without it a step is not whole.
    files = _numbered(written, r"(\d{1,15})__driver\.json")
    return {rollout_id: name for _, rollout_id, name in files[-steps:]}


def with_timings(run: Run, records: Mapping[int, object]) -> Run:
    """The run with what the driver's timing records tell, by their rollouts' ids."""
    asynchronous = False
    steps: list[Timings] = []
    for rollout_id, record in sorted(records.items(), reverse=True):
        phases = _phases_of(_member(record, "phases"))
        # Then rollouts are made while it trains.
        asynchronous = asynchronous or "wait_for_rollout" in (name for _, name, _ in phases)
        # A crash makes its step's record final, too.
        whole = rollout_id < run.last_whole_step and not _is_false(record, "final")
        if phases and whole and not run.began_after(_number(record, "lane_start_unix_s")):
            total = sum(seconds for _, name, seconds in phases if name not in BESIDE_THE_STEP)
            steps.append(Timings(rollout_id + 1, tuple(phase[1:] for phase in phases), total))
    return replace(run, steps=tuple(steps) or run.steps, asynchronous=asynchronous)


# ---- Rows: of the runs, and of the rollouts.


def _by_age(rows: Iterable[object]) -> list[object]:
    """The oldest first; of equally old ones the first last, so that a dict keeps that."""
    return sorted(rows, key=lambda row: created_at(row) or 0, reverse=True)[::-1]


def parse_rows(summary: object) -> dict[str, object]:
    """The rows of the runs summary, each a whole record, by their run's id: its newest one."""
    rows = _by_age(_elements(summary) or _elements(summary, "items"))
    ids = (_text(row, "training_run_id") or _text(row, "run_id") or "" for row in rows)
    return {run_id: row for run_id, row in zip(ids, rows, strict=True) if is_run_id(run_id)}


def parse_rollouts(items: Iterable[object], run_id: str) -> tuple[Rollout, ...]:
    """This run's rollouts among rows, each id once: its newest row, in order."""
    mine = _by_age(item for item in items if _text(item, "training_run_id") == run_id)
    return in_order(rollout for row in mine if (rollout := _parse_rollout(row)))


def in_order(rollouts: Iterable[Rollout]) -> tuple[Rollout, ...]:
    """Each id once, as the last of them tells it."""
    by_id = {rollout.rollout_id: rollout for rollout in rollouts}
    return tuple(by_id[rollout_id] for rollout_id in sorted(by_id))


def rollout_rows(raw: bytes, run_id: str) -> Iterable[object]:
    """The rows of a rollouts summary, those of this run at least; ValueError as `parse_json`."""
    if (rows := _rows_of_run(raw, run_id)) is not None:
        return rows
    summary = parse_json(raw)
    return _elements(summary) or _elements(summary, "items")


def _rows_of_run(raw: bytes, run_id: str) -> list[object] | None:
    """The rows of this run; None where they aren't sure to be all. Decoding all takes a second."""
    if not raw.startswith(b'{"items": [') or not raw.endswith(b"}]}") or b"\\u" in raw:
        return None
    # Rows are sorted by their run, and begin with it.
    key, cited = b'{"training_run_id": ', json.dumps(run_id, ensure_ascii=False).encode()
    first, last = raw.find(key + cited), raw.rfind(key + cited)
    end = raw.find(key, last + 1)
    stretch = raw[first : end if end > 0 else len(raw) - 2] if first > 0 else b""
    try:
        rows = json.loads(b"[" + stretch.rstrip(b", ") + b"]")
    except (ValueError, RecursionError):
        return None
    mine = [row for row in rows if _text(row, "training_run_id") == run_id]
    return mine if len(mine) == raw.count(cited) else None


def _parse_rollout(item: object) -> Rollout | None:
    rollout_id = _count(item, "rollout_id")
    if rollout_id is None:
        return None
    return Rollout(
        rollout_id=rollout_id,
        created_at=_time(item, "created_at"),
        samples=_count(item, "total"),
        mean_reward=_measure(item, "mean"),
        seconds=_duration(item, "rollout_time"),
        error_summary=_parse_error_summary(_member(item, "error_summary")),
    )


def _parse_error_summary(summary: object) -> str | None:
    """`verdict: kind count, … of total`; None where the summary counts no errors."""
    verdict = _text(summary, "verdict")
    counts = [
        f"{kind} {count}"
        for kind in ("remote_error", "response_missing", "infra_invalid", "limits_exceeded")
        if (count := _count(summary, kind))
    ]
    total = _count(summary, "total_samples")
    errors = ", ".join(counts) + (f" of {total} samples" if counts and total else "")
    return ": ".join(part for part in (verdict, errors) if part) or None


def rollout_files(written: Mapping[str, int], run_id: str) -> dict[int, tuple[str, int]]:
    """The files of one run in a folder of all runs' rollouts: by id the name and when written."""
    files = _numbered(written, re.escape(run_id) + r"__(\d{1,15})\.json")
    return {rollout_id: (name, at) for at, rollout_id, name in files}


# ---- Updates: notices that stand beside the record, in the newest layout instead of in it.


def newest_updates(written: Mapping[str, int], run_id: str, record: object) -> tuple[str, ...]:
    """The files of `training-run-updates/` that may hold the newest notices of the attempt."""
    attempt = _count(record, "metadata", "attempt_count") or 0
    newest: list[str] = []
    for kind in ("framework_progress", "latest_rollout"):
        prefix = f"{run_id}__{attempt}__{kind}__"
        mine = sorted(((at, n) for n, at in written.items() if n.startswith(prefix)), reverse=True)
        # Several are written in one second: with the last of the newest come all of its second.
        newest += [name for at, name in mine if at >= mine[:NEWEST_UPDATES][-1][0]]
    return tuple(newest)


def with_updates(record: object, updates: Sequence[object]) -> object:
    """The record as it would stand had the notices been written into it."""
    if not isinstance(record, dict):
        return record
    metadata = dict(_items(record, "metadata"))
    holders = (*updates, metadata)  # in this order: of what is equally new, a notice is right
    notice = _newest_holder(holders, "framework_progress", "updated_at", "current")
    rollout = _newest_holder(holders, "latest_rollout", "created_at", "rollout_id")
    known = _newest(_time(each, "updated_at") for each in (record, *updates))
    metadata["framework_progress"] = _member(notice, "framework_progress")
    metadata["latest_rollout"] = _member(rollout, "latest_rollout")
    phase = _scalar(notice, "framework_status") or record.get("framework_status")
    at = known or record.get("updated_at")  # which is told of, if it can't be read
    return {**record, "metadata": metadata, "framework_status": phase, "updated_at": at}


def _newest_holder(holders: Iterable[object], kind: str, *ages: str) -> object:
    """What holds the newest notice of a kind, by these of its times and counts."""
    having = [holder for holder in holders if _member(holder, kind)]
    return max(having, key=lambda each: [_time(each, kind, age) or 0 for age in ages], default=None)


# ---- Metrics: of the histories that the trainer logs, what tells whether it learns.

# What is shown, by a part of its name, in this order; the shortest name that has it.
METRICS = ("loss", "grad_norm", "entropy", "response_len", "truncated")
SPREAD = ("max", "min", "std", "median")


def newest_chunk(written: Mapping[str, int]) -> tuple[str, ...]:
    """The copies of the chunk of `metric-series/<run_id>/` that was written last."""
    # Not of that with the highest number, since a restarted logger counts from 0 again.
    chunks = _numbered(written, r"chunk-(\d{1,15})-\w+\.json")
    return tuple(sorted(name for _, number, name in chunks if number == chunks[-1][1]))


def parse_metrics(copies: Iterable[object]) -> tuple[Metric, ...]:
    """The newest value of each metric in the copies of a chunk, those that the gym makes up not."""
    found = [
        Metric(clean(name), number, int(step), _time(copy, "written", step, name))
        for copy in copies
        for step, logged in _items(copy, "steps")
        for name, value in _items(logged)
        if STEP_KEY.fullmatch(step) and not name.startswith("dojo/")
        if (number := _measure(value)) is not None
    ]
    # Where copies differ, what was written last is right.
    by_age = sorted(found, key=lambda metric: (metric.at or 0, metric.step))
    return tuple({metric.name: metric for metric in by_age}.values())


def shown_metrics(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """Loss, gradient norm, entropy, length, truncated share, and the evaluations' scores."""
    plainest = sorted(metrics, key=lambda m: (m.name.endswith(SPREAD), len(m.name), m.name))
    trained = [metric for metric in plainest if not metric.name.startswith("eval/")]
    plain = [next((m for m in trained if word in m.name), None) for word in METRICS]
    others = [m for m in plainest if not any(word in m.name for word in METRICS)]
    scores = [metric for metric in others if metric.name.startswith("eval/")]
    return tuple(metric for metric in dict.fromkeys((*plain, *scores[:3])) if metric)


# ======================================================================================
# Matching: a query and what is known of the runs -> the ids that it means. Pure.
# ======================================================================================

# Candidates that are listed; more would push the advice off the screen.
CANDIDATES_SHOWN = 20
# A query longer than any id is a paste gone wrong; it is compared, but near misses aren't sought.
QUERY_LIMIT = 100
# difflib's similarity, 0 to 1, from which an id is worth suggesting: one or two slips of ten keys.
NEAR = 0.75
FULL_RUN_ID = re.compile(
    r"[a-z0-9]+(?:-[a-z0-9]+)+-[0-9a-f]{12}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
PASTED_URL = re.compile(r"(?:https?://|modal\.com/|(?:www\.)?wandb\.ai/)", re.IGNORECASE)


def read_query(typed: str) -> str:
    """The query in the form in which it is compared: an id out of a URL, in lower case."""
    query = typed.strip().strip("<>\"'`()[]‹›«»,;.")
    return (_id_in_url(query) if PASTED_URL.match(query) else query).casefold()


def _id_in_url(url: str) -> str:
    path = re.split(r"[?#]", url.partition("://")[2] or url)[0]
    segments = [part for part in path.split("/") if part][1:]
    apps = [segment for segment in segments if APP_ID.fullmatch(segment)]
    # wandb.ai/<entity>/<project>/runs/<id>, and a page of it such as /overview behind that
    pairs = itertools.pairwise(segments)
    named = [segment for kind, segment in pairs if kind.casefold() in ("runs", "groups")]
    return (apps or named or segments or [""])[-1]


def match_runs(
    query: str, records: Mapping[str, object], run_ids: Iterable[str]
) -> tuple[str, ...]:
    """The ids that the query means; the first tier in which anything matches decides."""
    ids = sorted({*run_ids, *records})

    def having(ids_of: Callable[[object], Iterable[str]]) -> Iterator[str]:
        folded = ((run_id, map(str.casefold, ids_of(record))) for run_id, record in records.items())
        return (run_id for run_id, others in folded if query in others)

    tiers: Iterable[Iterable[str]] = (
        (run_id for run_id in ids if run_id.casefold() == query),
        having(app_ids),
        having(wandb_ids),
        (run_id for run_id in ids if run_id.casefold().startswith(query)),
        (run_id for run_id in ids if query in run_id.casefold()),
        having(named_ids),
    )
    return next((found for tier in tiers if (found := tuple(tier))), ())


def nearest_runs(query: str, run_ids: Iterable[str]) -> tuple[str, ...]:
    """Up to three ids that the query may have meant, the nearest first."""
    if len(query) > QUERY_LIMIT:
        return ()
    ids: dict[str, list[str]] = {}
    for run_id in sorted(run_ids):
        folded = run_id.casefold()
        # A scrap is compared with as much of the id as was typed, and with its words.
        for part in (folded, folded[: len(query)], folded.rpartition("-")[0]):
            ids.setdefault(part, []).append(run_id)
    near = difflib.get_close_matches(query, ids, n=9, cutoff=NEAR)  # each id has three parts
    return tuple(dict.fromkeys(run_id for part in near for run_id in ids[part]))[:3]


# ======================================================================================
# Reading: the files of a volume through Modal's SDK, of which no section above this one
# knows. It asks, it never writes; a call that fails is told in Modal's own words.
# ======================================================================================

# The name that the newest gym gives its volume, and the one that it had before.
VOLUMES = ("modal-dojo-metadata", "training-gym-metadata")
OLDEST_MODAL = (1, 5, 0)
# Packages whose exceptions are failed calls: modal, and what it depends on for them.
SDK = {"modal", "grpclib", "aiohttp"}
# Seconds within which Modal must be reached: the SDK, whose last words tell less, tries for 57.
OPENING_PATIENCE = 20.0
MISSING = "it does not exist"


# The kinds of error, each with its exit status.
STATUS_OF = {"unreadable": 1, "usage": 2, "no_match": 3, "several_match": 4}


class ProgressError(Exception):
    """What ends the command without showing a run: a line for the user, and its kind.

    Where several runs match, it has the newest `candidates` of them, and how many there are `more`.
    """

    def __init__(
        self, line: str, kind: str = "unreadable", candidates: tuple[Run, ...] = (), more: int = 0
    ) -> None:
        """Keep what is to be shown."""
        super().__init__(line)
        self.kind, self.candidates, self.more = kind, candidates, more


class ReadError(ProgressError):
    """A call to Modal that failed: what was asked for, and Modal's own words."""

    def __init__(self, what: str, why: str) -> None:
        """Say it in one line."""
        super().__init__(f"could not read {what}: {why}")
        self.why = why


class BadFileError(ReadError):
    """A file that is missing or holds no JSON: Modal answered, so that no call has failed."""


@dataclass(frozen=True)
class Source:
    """Where to read, for how long, who hears of it meanwhile, and who asks what Modal knows."""

    volumes: Sequence[str]
    env: str | None
    patience: Seconds
    note: Callable[[str], None] = lambda _: None  # of what slows it
    when_known: Callable[[Run], None] = lambda _: None  # of the run, once its record is there
    ask: Callable[[Run, App], Awaitable[Hardware | None]] | None = None


def require_modal() -> None:
    """Raise ProgressError where modal is missing, broken or older than what is spoken here."""
    needed = ".".join(map(str, OLDEST_MODAL))
    advice = f"it needs {needed} or newer: `uv run {sys.argv[0]} …` brings its own"
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # modal's banner about a broken config
            import modal
            import rich  # noqa: F401
    except ImportError as error:
        raise ProgressError(f"modal and rich can't be imported here ({error}); {advice}") from None
    except Exception as error:  # noqa: BLE001 - modal reads its config on import, in many ways
        raise ProgressError(f"modal can't be set up: {_words(error)}") from None
    if _version(modal.__version__) < OLDEST_MODAL:
        raise ProgressError(f"found modal {clean(modal.__version__)}; {advice}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _is_fault(error: Exception) -> bool:
    """Whether the SDK, or the gRPC or HTTP client that comes with it, reports a failure so."""
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    # A ValueError is what can't be sent, such as a token with a line break in it.
    return isinstance(error, OSError | ValueError) or not names.isdisjoint(SDK)


def _words(fault: BaseException) -> str:
    """A failure in Modal's own words, on one line."""
    return clean(" ".join(str(fault).split())) or type(fault).__name__


def _address() -> str:
    """Where modal looks for Modal, and the proxies that are set: either may be wrong."""
    import modal.config

    settings = (f"{name}={value}" for name, value in sorted(os.environ.items()))
    proxies = [setting for setting in settings if re.match("(?i:https?|all)_(?i:proxy)=.", setting)]
    address = " with ".join([str(modal.config.config["server_url"]), *proxies])
    return re.sub("(//|=)[^/ ]*@", r"\1", address)  # without a name and a password


class Volume:
    """One of the gym's volumes, until when it may answer, and the calls that failed meanwhile."""

    def __init__(self, name: str, source: Source) -> None:
        """Name the volume; nothing is asked yet."""
        import modal

        self.name, self.source = name, source
        self.modal = modal.Volume.from_name(name, environment_name=source.env)
        self.deadline = asyncio.get_running_loop().time() + source.patience
        self.failures: list[str] = []

    async def open(self) -> str | None:
        """Look the volume up: why there is none, if so. Raises ProgressError with the next step."""
        import modal.exception

        opening = min(self.source.patience, OPENING_PATIENCE)
        try:
            async with asyncio.timeout(opening):
                await self.modal.hydrate.aio()
        except modal.exception.AuthError as fault:
            words = f"Modal gives no access: {_words(fault)}"
            hint = "" if "modal token new" in words else "; run `modal token new`"
            raise ProgressError(f"{words}{hint}") from fault
        except modal.exception.NotFoundError as fault:
            return _words(fault)
        except (modal.exception.ConnectionError, OSError) as fault:
            words = f"Modal can't be reached at {_address()}: {_words(fault)}"
            if isinstance(fault, TimeoutError):
                words = f"Modal did not answer within {opening:g} s at {_address()}"
            raise ProgressError(f"{words}; check the network, then try again") from fault
        except Exception as fault:
            if not _is_fault(fault):
                raise
            raise ProgressError(f"Modal refused to open {self.name}: {_words(fault)}") from fault
        return None

    async def read_bytes(self, path: str) -> bytes:
        """The contents of a file. Raises BadFileError where there is none, else ReadError."""

        async def contents() -> bytes:
            return b"".join([chunk async for chunk in self.modal.read_file.aio(path)])

        return await self._wait_for(contents(), path, self.deadline)

    async def read_json(self, path: str) -> object:
        """A file's JSON. Raises BadFileError where there is none, else ReadError."""
        raw = await self.read_bytes(path)
        try:
            return parse_json(raw)
        except ValueError as error:
            raise BadFileError(path, str(error)) from None

    async def read_each(self, folder: str, names: Iterable[str]) -> list[object]:
        """The JSON of files in a folder; None for one that can't be read, which is a failure."""
        paths = (f"{folder}/{name}" for name in names)
        return await asyncio.gather(*(self.or_none(self.read_json(path)) for path in paths))

    async def list_files(self, folder: str) -> dict[str, int]:
        """The files of a folder and when each was written; ReadError where Modal fails twice."""

        async def entries() -> list[FileEntry]:
            listing = self.modal.listdir.aio(folder)
            return await self._wait_for(listing, f"{folder}/", self.deadline)

        try:
            found = await entries()
        except BadFileError:
            return {}
        except ReadError:  # the SDK makes other failed calls again, this one it does not
            found = await entries()
        return {entry.path.rpartition("/")[2]: entry.mtime for entry in found}

    async def within_half(self, answer: Awaitable[T], what: str) -> T:
        """What comes within half the time left, so that a stand-in can be read; else ReadError."""
        half = (asyncio.get_running_loop().time() + self.deadline) / 2
        shielded = asyncio.shield(answer)  # it may be awaited again
        return await self._wait_for(shielded, what, half)

    async def list_within_half(self, folder: str) -> dict[str, int]:
        """The same where other files stand in for these: none, where it failed."""
        listing = self.within_half(self.list_files(folder), f"{folder}/")
        return await self.or_none(listing) or {}

    async def or_none(self, answer: Awaitable[T]) -> T | None:
        """What was read, or None where it failed."""
        try:
            return await answer
        except ReadError as error:
            self.failed(error)
            return None

    def failed(self, error: ReadError) -> None:
        """Keep a failed call; a broken file is none, since what it holds is read elsewhere."""
        if not isinstance(error, BadFileError):
            self.failures.append(str(error))

    async def _wait_for(self, answer: Awaitable[T], what: str, until: float) -> T:
        import modal.exception

        try:
            async with asyncio.timeout_at(until):
                return await answer
        except (FileNotFoundError, modal.exception.NotFoundError):
            raise BadFileError(what, MISSING) from None
        except TimeoutError:
            given = self.source.patience - (self.deadline - until)
            raise ReadError(what, f"no answer within {round(given, 1):g} s") from None
        except Exception as fault:
            if not _is_fault(fault):
                raise
            raise ReadError(what, _words(fault)) from fault


async def open_volumes(source: Source) -> tuple[Volume, ...]:
    """Those of the volumes that there are, looked up together; ProgressError if none."""
    volumes = [Volume(name, source) for name in source.volumes]
    lacks = await asyncio.gather(*(volume.open() for volume in volumes))
    found = tuple(volume for volume, lack in zip(volumes, lacks, strict=True) if lack is None)
    if not found:
        words = "; ".join(dict.fromkeys(map(str, lacks)))
        hint = "check -e/--env, --volume and the workspace (`modal profile current`)"
        raise ProgressError(f"{words}; {hint}")
    return found


# ======================================================================================
# Finding: the run that is meant, or the newest, all that the volumes hold of it, and the
# state of its app. Calls that do not need each other's answers run together.
# ======================================================================================

RUNS, RUN_SUMMARIES, RUN_UPDATES = "training-runs", "training-runs-summary", "training-run-updates"
ROLLOUTS, ROLLOUT_SUMMARIES = "training-rollouts", "training-rollouts-summary"
# Of all runs; the newest gym has one of its own for each run, in a folder or beside it.
RUNS_SUMMARY = f"{RUN_SUMMARIES}/summary.json"
ROLLOUTS_SUMMARY = f"{ROLLOUT_SUMMARIES}/summary.json"
SUBSTEP_TIMING, METRIC_SERIES, RESULTS = "substep-timing", "metric-series", "train-results"
RESULT_SUMMARIES = f"{RESULTS}-summary"
# The first modal that looks an app up by its id and tells its state.
LOOK_UP_BY_ID = (1, 6, 4)
# What may be a run's id elsewhere though it is found in another run's: W&B's have 8 characters.
OTHER_ID = re.compile(r"[a-z0-9]{8}|(?:ap|fc)-.*")
# Seconds for which the app's state may hold the blocks back once all else is there.
APP_PATIENCE = 5.0
LATE_APP = App(live=None, unknown="no answer in time")
# Apps of the list that are looked up at once.
APPS_AT_ONCE = 20
# Records read at once while looking for an app id or a W&B id.
RECORDS_AT_ONCE = 32
# Seconds by which a record is newer than its row says, if the row is of an earlier time.
ROW_LAG = 10
# Newest steps whose timing files are read: the one under way, and ten to compare it with.
TIMED_STEPS = 11


@dataclass(frozen=True)
class Found:
    """All that was read of one run.

    `has_result` is None where Modal did not tell, `stale` says why a cached row stands in for
    the record, and `failures` are the calls that went unanswered. The rollouts are in order;
    `counted` is false where nothing told of them, `incomplete` says what is lacking.
    """

    run: Run
    app: App | None
    rollouts: tuple[Rollout, ...]
    has_result: bool | None
    stale: str | None
    failures: tuple[str, ...]
    counted: bool = True
    incomplete: str | None = None
    metrics: tuple[Metric, ...] = ()
    volume: str = VOLUMES[0]
    hardware: Hardware | None = None  # where Modal was asked
    read_at: EpochSeconds = 0.0  # what is said of it was true then

    @property
    def live(self) -> bool | None:
        """Whether the run's app is live; None where it has none or Modal did not tell."""
        return self.app.live if self.app else None

    @property
    def standing(self) -> tuple[object, ...]:
        """Where this is another, what else is read of the run may have changed."""
        run = self.run
        return run.step, run.status, run.attempt, run.app_id, self.live, self.has_result


async def read_run(query: str, source: Source) -> Found:
    """All that is shown of the run that the query means; ProgressError where none can be shown."""
    volumes = await open_volumes(source)
    files, record, stale = await _find(volumes, query)
    volume, run_id = files.volume, files.run_id
    run = parse_run(record, run_id)
    source.when_known(run)
    app_state = asyncio.create_task(_read_app(run.app_id, source.env))
    updated = _with_updates(volume, run_id, record, files.updates)
    record, timings, metrics = await asyncio.gather(updated, files.timings, files.metrics)
    run = with_timings(parse_run(record, run_id), timings)
    sign = _newest((run.last_sign, *(metric.at for metric in metrics)))
    asking = asyncio.create_task(_ask(source, replace(run, last_sign=sign), app_state))
    has_result = await volume.or_none(files.result)
    if run.unread_times:
        source.note(f"times can't be read in the record: {', '.join(run.unread_times)}")
    rollouts, counted, incomplete = await _read_rollouts(volume, run, files.rows)
    app = await _await_app(volume, app_state)
    hardware = await asking if app_state.done() else None
    if run.status == "running" and app and app.live is False and not stale:
        # It has died, or it has ended since its record was read, if that can still be told.
        with contextlib.suppress(ReadError):
            again = _read_updated_record(volume, run_id, files.updates)
            record = await volume.within_half(again, RUNS)
            left = has_result or await volume.within_half(_left_result(volume, run_id), RESULTS)
            has_result = left
    run = with_timings(parse_run(record, run_id), timings)
    run = step_borne_out(run, rollouts) if counted else run
    return Found(
        run=replace(run, submitted=run.submitted and not rollouts),
        app=app,
        rollouts=rollouts,
        has_result=has_result,
        stale=stale,
        failures=tuple(dict.fromkeys(failure for each in volumes for failure in each.failures)),
        counted=counted,
        incomplete=incomplete,
        metrics=tuple(metric for metric in metrics if not run.began_after(metric.at)),
        volume=volume.name,
        hardware=hardware,
    )


async def _ask(source: Source, run: Run, app: Awaitable[App | None]) -> Hardware | None:
    state = await app
    return await source.ask(run, state) if source.ask and state else None


async def refresh(found: Found, source: Source, doubtful: Callable[[Found], bool]) -> Found:
    """The run as it stands now: its record and its app, the rest where that may have moved."""
    (volume,) = await open_volumes(source)
    run_id = found.run.run_id
    result = asyncio.create_task(_has_result(volume, run_id))
    updates = asyncio.create_task(volume.list_within_half(RUN_UPDATES))
    run = parse_run(await _read_updated_record(volume, run_id, updates), run_id)
    run = replace(run, steps=found.run.steps, asynchronous=found.run.asynchronous)
    fresh = replace(
        found,
        run=step_borne_out(run, found.rollouts) if found.counted else run,
        app=await _await_app(volume, asyncio.create_task(_read_app(run.app_id, source.env))),
        has_result=await volume.or_none(result),
        hardware=None,
    )
    moved = fresh.standing != found.standing
    if moved or run.step is None or found.failures or doubtful(fresh):
        return await read_run(run_id.casefold(), source)
    return replace(fresh, failures=tuple(volume.failures))


async def read_runs(source: Source, limit: int) -> tuple[tuple[Found, ...], int, tuple[str, ...]]:
    """The newest runs, with their apps where they are running; how many more; what failed."""
    volumes = await open_volumes(source)
    index = await _read_index(volumes, None)
    if not index.homes and index.failures:
        raise ProgressError(index.failures[0])
    runs = await _read_candidates(index.newest_first(index.homes)[:limit], index)
    if any(run.unread_times for run in runs):
        unread = (run.run_id for run in runs if run.unread_times)
        source.note(f"times can't be read in the records of {', '.join(unread)}")
    turn = asyncio.Semaphore(APPS_AT_ONCE)
    until = asyncio.get_running_loop().time() + APP_PATIENCE

    async def standing(run: Run) -> Found:
        volume, app, has_result = index.homes[run.run_id], None, None
        if run.status == "running":
            has_result = await volume.or_none(_has_result(volume, run.run_id))
        if run.app_id and (run.status == "running" or run.attempt_failed_at):
            try:
                async with asyncio.timeout_at(until), turn:
                    app = await _read_app(run.app_id, source.env)
            except TimeoutError:
                app = LATE_APP
        if app and app.live is False and has_result is False:
            has_result = await volume.or_none(_left_result(volume, run.run_id))
        return Found(run, app, (), has_result, stale=None, failures=())

    found = await asyncio.gather(*map(standing, runs))
    unknown = [each.app.unknown for each in found if each.app and each.app.unknown]
    if unknown:
        source.note(f"{len(unknown)} of the apps did not tell their state: {unknown[0]}")
    return tuple(found), len(index.homes) - len(runs), index.failures


class RunFiles:
    """What is asked for by a run's id alone, all at once; each is awaited where it is needed."""

    def __init__(self, volume: Volume, run_id: str) -> None:
        """Ask for it."""
        begin = asyncio.create_task
        self.volume, self.run_id = volume, run_id
        self.record = begin(_read_record(volume, run_id))
        self.rows = begin(_read_own_rows(volume, run_id))
        self.timings = begin(_read_timings(volume, run_id))
        self.metrics = begin(_read_metrics(volume, run_id))
        self.result = begin(_has_result(volume, run_id))
        self.updates = begin(volume.list_within_half(RUN_UPDATES))

    async def record_within_half(self) -> object:
        """The record, while there is time to read what stands in for it; else ReadError."""
        return await self.volume.within_half(self.record, f"{RUNS}/{self.run_id}.json")


async def _find(volumes: Sequence[Volume], query: str) -> tuple[RunFiles, object, str | None]:
    """The run's files and record, and why a cached one stands in for that, if so."""
    # What can only be a whole run id is asked for beside looking whether there is such a run.
    asked = [RunFiles(volume, query) for volume in volumes if FULL_RUN_ID.fullmatch(query)]
    for files in asked:
        with contextlib.suppress(ReadError):
            return files, await files.record_within_half(), None
    index = await _read_index(volumes, query)
    run_id = await _choose(query, index)
    volume = index.homes[run_id]
    same = (files for files in asked if (files.volume, files.run_id) == (volume, run_id))
    files = next(same, None) or RunFiles(volume, run_id)
    try:
        return files, await files.record_within_half(), None
    except ReadError as error:
        row = await _read_stand_in(volume, run_id, index)
        if row is None:
            return files, await files.record, None
        volume.failures.append(str(error))
        return files, row, error.why


async def _read_stand_in(volume: Volume, run_id: str, index: Index) -> object:
    """The record as one of the caches holds it, the run's own before that of all; else None."""
    with contextlib.suppress(ReadError):
        return await volume.read_json(f"{RUN_SUMMARIES}/{run_id}.json")
    with contextlib.suppress(ReadError):
        rows = index.rows or parse_rows(await volume.read_json(RUNS_SUMMARY))
        return rows.get(run_id)
    return None


async def _read_record(volume: Volume, run_id: str) -> object:
    path = f"{RUNS}/{run_id}.json"
    record = await volume.read_json(path)
    if not isinstance(record, dict):
        raise BadFileError(path, f"not a record but a {type(record).__name__}")
    return record


async def _has_result(volume: Volume, run_id: str, folder: str = RESULTS) -> bool:
    try:
        await volume.read_bytes(f"{folder}/{run_id}.json")
    except BadFileError:
        return False
    return True


async def _left_result(volume: Volume, run_id: str) -> bool:
    """Whether any of the files tells of a result: the caches may, where its own was lost."""
    if await _has_result(volume, run_id) or await _has_result(volume, run_id, RESULT_SUMMARIES):
        return True
    with contextlib.suppress(BadFileError):
        return run_id in parse_rows(await volume.read_json(f"{RESULT_SUMMARIES}/summary.json"))
    return False


async def _with_updates(
    volume: Volume, run_id: str, record: object, updates: Awaitable[dict[str, int]]
) -> object:
    """The record with the notices that stand beside it."""
    names = newest_updates(await updates, run_id, record)
    return with_updates(record, await volume.read_each(RUN_UPDATES, names))


async def _read_updated_record(
    volume: Volume, run_id: str, updates: Awaitable[dict[str, int]]
) -> object:
    return await _with_updates(volume, run_id, await _read_record(volume, run_id), updates)


@dataclass(frozen=True)
class Index:
    """Every run that is known: rows of the summaries, when each record was written, and where."""

    volumes: Sequence[Volume]
    rows: dict[str, object]
    written: dict[str, int]
    homes: dict[str, Volume]

    @property
    def failures(self) -> tuple[str, ...]:
        """The calls that failed in any of the volumes."""
        return tuple(failure for volume in self.volumes for failure in volume.failures)

    def newest_first(self, run_ids: Iterable[str]) -> list[str]:
        """The ids by when the run was created, or where that is unknown, last written."""

        def age(run_id: str) -> tuple[float, str]:
            return -(created_at(self.rows.get(run_id)) or self.written.get(run_id, 0)), run_id

        return sorted(run_ids, key=age)


async def _read_index(volumes: Sequence[Volume], query: str | None) -> Index:
    """The names of the records and, unless they settle the query, the summary: that loses rows."""
    listings = [asyncio.create_task(_read_names(volume)) for volume in volumes]
    settles = query is not None and not OTHER_ID.fullmatch(query)
    summaries = None if settles else asyncio.gather(*map(_read_summary, volumes, listings))
    written: dict[str, int] = {}
    homes: dict[str, Volume] = {}
    # What several volumes hold is the first one's.
    for volume, listing in zip(volumes, listings, strict=True):
        names = await listing
        written, homes = names | written, dict.fromkeys(names, volume) | homes
    if query is not None and settles and len(match_runs(query, {}, written)) == 1:
        return Index(volumes, {}, written, homes)
    rows: dict[str, object] = {}
    summaries = summaries or asyncio.gather(*map(_read_summary, volumes, listings))
    for volume, mine in zip(volumes, await summaries, strict=True):
        rows, homes = mine | rows, dict.fromkeys(mine, volume) | homes
    return Index(volumes, rows, written, homes)


async def _read_names(volume: Volume) -> dict[str, int]:
    """The ids of all records, and when each was written."""
    names = await volume.list_within_half(RUNS)
    ids = {name.removesuffix(".json"): at for name, at in names.items() if name.endswith(".json")}
    named = {run_id: at for run_id, at in ids.items() if is_run_id(run_id)}
    if len(named) < len(ids):
        left_out = len(ids) - len(named)
        volume.source.note(f"records whose names can't be shown are left out: {left_out}")
    return named


async def _read_summary(volume: Volume, listing: Awaitable[Mapping[str, int]]) -> dict[str, object]:
    """The rows of the runs summary; a note tells if there are none, or fewer than records."""
    own_files = asyncio.create_task(volume.list_within_half(RUN_SUMMARIES))
    rows: dict[str, object] = {}
    lack = None
    try:
        rows = parse_rows(await volume.within_half(volume.read_json(RUNS_SUMMARY), RUNS_SUMMARY))
    except ReadError as error:
        volume.failed(error)
        lack = f"is unreadable ({error.why}): the records themselves were searched"
    names = await listing
    missing = len(names.keys() - rows)
    if missing and not lack:
        lack = f"is incomplete: {missing} of {len(names)} runs have no row"
    # Where runs have files of their own there, the summary of all has stopped growing.
    if lack and not (await own_files).keys() - {"summary.json"}:
        volume.source.note(f"the runs summary {lack}")
    return rows


async def _choose(query: str, index: Index) -> str:
    """The one run id that the query means; ProgressError where none matches, or several do."""
    matched = match_runs(query, index.rows, index.written)
    named = any(query in run_id.casefold() for run_id in matched)
    if not named and re.fullmatch(r"[\w.-]+", query):  # else it can be no other id either
        matched = await _match_in_records(query, index, matched)
    if len(matched) == 1:
        return matched[0]
    # Quoted as Python does, what can't be printed too; none is cut, it may hold a credential.
    shown = f"{query!r}" if len(query) <= QUERY_LIMIT else f"those {len(query):,} characters"
    if matched:
        runs = await _read_candidates(index.newest_first(matched)[:CANDIDATES_SHOWN], index)
        words = f"{len(matched)} runs match {shown}: give more of the id, or the app id"
        raise ProgressError(words, "several_match", runs, more=len(matched) - len(runs))
    if index.failures:
        raise ProgressError(f"{index.failures[0]}; no run matches {shown} in what could be read")
    near = nearest_runs(query, index.homes)
    advice = f"did you mean {' or '.join(near)}?" if near else "is it in another environment (-e)?"
    raise ProgressError(f"no run matches {shown}: {advice}", "no_match")


async def _match_in_records(query: str, index: Index, matched: tuple[str, ...]) -> tuple[str, ...]:
    """Look for an app id or a W&B id in the records, newest first, until one matches.

    A row may be missing, or be of the time before the run had this app. What rows alone have
    matched, one more batch of records may match too: it is never guessed.
    """
    deadline = max(volume.deadline for volume in index.volumes)

    def unknown(run_id: str) -> bool:
        row = index.rows.get(run_id)
        if row is None or matched:
            return row is None
        sign = last_sign(row)
        return not app_ids(row) or (sign is not None and index.written[run_id] > sign + ROW_LAG)

    async def read(run_id: str) -> object:
        volume = index.homes[run_id]
        return await volume.or_none(_read_record(volume, run_id))

    unread = index.newest_first(filter(unknown, index.written))
    for at in range(0, len(unread), RECORDS_AT_ONCE):
        batch = unread[at : at + RECORDS_AT_ONCE]
        records = zip(batch, await asyncio.gather(*map(read, batch)), strict=True)
        matched = tuple({*matched, *match_runs(query, dict(records), ())})
        late = asyncio.get_running_loop().time() > deadline
        if matched or (late and index.failures):
            break
    return matched


async def _read_candidates(run_ids: Sequence[str], index: Index) -> tuple[Run, ...]:
    """The runs as their records stand, since rows lag; as their rows where those can't be read."""
    listings = (volume.list_within_half(RUN_UPDATES) for volume in index.volumes)
    updates = dict(zip(index.volumes, map(asyncio.create_task, listings), strict=True))

    async def candidate(run_id: str) -> Run:
        volume = index.homes[run_id]
        try:
            record = await _read_updated_record(volume, run_id, updates[volume])
        except ReadError as error:
            volume.failures.append(str(error))
            record = await _read_stand_in(volume, run_id, index)
        return parse_run(record, run_id)

    return tuple(await asyncio.gather(*map(candidate, run_ids)))


# Rollouts, or why there are none.
Rows: TypeAlias = tuple[tuple[Rollout, ...], str | None]


async def _read_own_rows(volume: Volume, run_id: str) -> tuple[Rows, asyncio.Task[Rows] | None]:
    """The run's own summary, else a file for each rollout, with that of all runs on its way."""
    own = f"{ROLLOUT_SUMMARIES}/{run_id}/summary.json"
    rows, why = await _read_rows(volume.read_bytes(own), volume, run_id)
    if why != MISSING:
        return (rows, why), None
    of_all = volume.within_half(volume.read_bytes(ROLLOUTS_SUMMARY), ROLLOUTS_SUMMARY)
    shared = asyncio.create_task(_read_rows(of_all, volume, run_id))
    written = await volume.or_none(volume.list_files(ROLLOUT_SUMMARIES)) or {}
    names = (name for name, _ in rollout_files(written, run_id).values())
    each = await volume.read_each(ROLLOUT_SUMMARIES, names)
    return (parse_rollouts(each, run_id), None), shared


async def _read_rows(summary: Awaitable[bytes], volume: Volume, run_id: str) -> Rows:
    try:
        return parse_rollouts(rollout_rows(await summary, run_id), run_id), None
    except ReadError as error:
        volume.failed(error)
        return (), error.why
    except ValueError as error:
        return (), str(error)


async def _read_rollouts(
    volume: Volume, run: Run, reading: Awaitable[tuple[Rows, asyncio.Task[Rows] | None]]
) -> tuple[tuple[Rollout, ...], bool, str | None]:
    """The run's rollouts, whether anything told of them, and what the summaries are known to lack.

    The summary of all runs is asked only where the run's own lacks rows, and what that lacks too
    is counted by the rollouts' files.
    """
    (own, unreadable), shared = await reading
    rollouts = kept(run, own)
    lack = _lack(rollouts, run)
    if not rollouts and lack is None and not unreadable and run.expects_no_rollout:
        return (), True, None
    # An older gym may have recorded the first ones.
    if lack or unreadable or not own or own[0].rollout_id > 0:
        if shared is None:
            of_all = volume.read_bytes(ROLLOUTS_SUMMARY)
            shared = asyncio.create_task(_read_rows(of_all, volume, run.run_id))
        rows, why = await shared
        rollouts = kept(run, in_order([*rows, *own]))
        lack = _lack(rollouts, run)
        why = unreadable or (None if own else why)
        if why and (lack or not rollouts):
            lack = f"the rollouts summary can't be read: {why}"
    if lack is None:
        return rollouts, True, None
    names = await volume.or_none(volume.list_files(ROLLOUTS))
    # When they were written stands in for when they were made; the record has heard of each.
    latest = run.last_sign or math.inf
    files = rollout_files(names or {}, run.run_id).items()
    known = list(kept(run, (Rollout(number, min(at, latest)) for number, (_, at) in files)))
    known += [run.latest_rollout] if run.latest_rollout else []
    return in_order([*known, *rollouts]), names is not None or bool(rollouts), lack


def _lack(rollouts: Sequence[Rollout], run: Run) -> str | None:
    """Why the summary is known to lack rows of this run, if it is."""
    run = step_borne_out(run, rollouts)
    last = rollouts[-1].rollout_id if rollouts else -1
    if run.last_rollout_id > last:
        return f"the rollouts summary lacks rows up to rollout_id {run.last_rollout_id}"
    if rollouts and len(rollouts) <= last - rollouts[0].rollout_id:
        return f"the rollouts summary lacks rows before rollout_id {last}"
    return None


async def _read_metrics(volume: Volume, run_id: str) -> tuple[Metric, ...]:
    folder = f"{METRIC_SERIES}/{run_id}"
    names = newest_chunk(await volume.or_none(volume.list_files(folder)) or {})
    return parse_metrics(await volume.read_each(folder, names))


async def _read_timings(volume: Volume, run_id: str) -> dict[int, object]:
    """The timing records of the newest steps, by their rollout."""
    folder = f"{SUBSTEP_TIMING}/{run_id}"
    files = newest_timing_files(await volume.or_none(volume.list_files(folder)) or {}, TIMED_STEPS)
    return dict(zip(files, await volume.read_each(folder, files.values()), strict=True))


async def _await_app(volume: Volume, state: asyncio.Task[App | None]) -> App | None:
    """The app's state, given up once it holds the blocks back for too long."""
    left = volume.deadline - asyncio.get_running_loop().time()
    done, _ = await asyncio.wait({state}, timeout=max(0.0, min(APP_PATIENCE, left)))
    app = state.result() if done else LATE_APP
    if app and app.unknown:
        volume.failures.append(f"could not read the app's state: {app.unknown}")
    return app


async def _read_app(app_id: str | None, env: str | None) -> App | None:
    """Its state, or before modal 1.6.4 whether it has stopped; None without an id."""
    if app_id is None:
        return None
    import modal

    by_id = _version(modal.__version__) >= LOOK_UP_BY_ID
    functions: tuple[tuple[str, str], ...] = ()
    try:
        if by_id:
            app = await modal.App.lookup.aio(app_id, environment_name=env)
            info = await app.info.aio()
            lifecycle, functions = info.lifecycle, tuple(sorted(info.functions.items()))
        else:
            import modal.experimental

            lifecycle = await modal.experimental.get_app_lifecycle.aio(app_id)
    except Exception as fault:  # noqa: BLE001 - a state that this SDK can't name is a KeyError
        kind = "" if _is_fault(fault) else f"{type(fault).__name__}: "
        return App(live=None, unknown=f"{kind}{_words(fault)}")
    stopped = lifecycle.stopped_at.timestamp() if lifecycle.stopped_at else None
    state = lifecycle.state.value if by_id else "stopped" if stopped else ""
    return App(
        live=state in LIVE_STATES if by_id else stopped is None,
        state=state,
        stopped_at=stopped,
        stopped_by=clean(lifecycle.stopped_by or "") or None,
        functions=functions,
    )


# ======================================================================================
# Signs: how log lines tell of failures, retries, progress and data, as tables and patterns.
# Each is linear in time, whatever a line holds; what follows from them is for Diagnosis.
# ======================================================================================

# Characters of a log line that are judged: far above any message, far below a printed batch.
LOG_LINE_LIMIT = 4_000
Side: TypeAlias = Literal["rollout", "training", "both", "own"]
CHANGE = "only after a change"


class Kind(NamedTuple):
    """A kind of failure, and what a user does about it."""

    name: str
    nature: Literal["fault", "request", "error"]  # a fault ends a process, a request is one of many
    restart: str | None  # whether that helps
    next: str | None
    words: str  # that tell of it, in lower case: words, or words ~ regex; a line's end is a space


def _status(number: str) -> str:
    """A status as a server, a client or an SDK tells it, not any number of that size."""
    word = r'\b(?:status|code|error|http)(?:[ _]code)?"?[ :=/\']+(?:[\d.]+"? )?'
    return rf'{word}{number}\b(?!\.\d)|" {number}\b|\b{number}, message='


# The first whose words are in a message is its kind; the last is any other.
KINDS = (
    Kind("preempted", "fault", "helps",
        "Modal starts it again by itself, which helps: watch that it resumes from a checkpoint",
        "interrupted due to worker preemption"),
    Kind("timeout", "fault", None,
        "raise the Modal function's timeout, then resume from a checkpoint",
        "hit its timeout of; functiontimeouterror"),
    Kind("shm_full", "fault", None, "more shared memory for it, or fewer data loader workers",
        r"""insufficient shared memory; out of shared memory; unexpected bus error;
        /shm ~ /shm.{0,100}(?:no space left|error)|(?:failed|error).{0,60}/shm"""),
    Kind("host_oom", "fault", None, "ask for more memory, or hold less in it; then start it again",
        r"""memory on the node ~ memory on the node .{0,200}exceed; node running low on memory;
        due to memory pressure; runner ran out of memory; oom-kill; oomkilled; bad_alloc;
        out of memory: killed; ray.exceptions.outofmemoryerror; memoryerror ~ ^memoryerror\b;
        cannot allocate memory; defaultcpuallocator"""),
    Kind("cuda_oom", "error", CHANGE,
        "start it again only with fewer tokens a GPU, a smaller micro batch or more GPUs",
        r"""cuda out of memory; hip out of memory; outofmemoryerror; cuda_error_out_of_memory;
        out of memory ~ (?:error|failure|failed)\b.{0,40}out of memory; _status_alloc_failed;
        failed to cuda calloc; increase --mem-fraction; memory for the cache blocks;
        cudaerror error:; no cache blocks; stored in kv cache; kv cache memory;
        less than desired gpu memory"""),
    Kind("disk_full", "error", CHANGE, "free or enlarge the disk before you start it again",
        """no space left on device; disk quota exceeded; outofdiskerror; disk is full; enospc;
        pytorchstreamwriter failed"""),
    Kind("gpu_fault", "fault", "helps", "starting again helps: it takes another GPU than this one",
        r"""ecc error; xid ~ \bxid\b.{0,20}\d; fallen off the bus; illegal memory access;
        an illegal instruction; misaligned address; unspecified launch failure; gpu is lost;
        device lost; failed to launch on the gpu; no cuda-capable device; busy or unavailable;
        system not yet initialized; device-side assert; _status_execution_failed; nvlink error"""),
    Kind("config", "fault", CHANGE, "start it again only with an image that fits the GPU's driver",
        r"""error 803|error 804 ~ error 80[34]\b; forward compatibility was attempted;
        no kernel image; driver version is insufficient; nvidia driver on your system is too old;
        unsupported toolchain; found no nvidia driver; not compatible with the current pytorch"""),
    Kind("nccl_timeout", "fault", None, "one rank is lost or slow: find the first that fails",
        r"""watchdog caught collective operation timeout; seconds waiting for clients;
        wait timeout after; heartbeat monitor timed out; watchdog got stuck; got completion;
        vendor err; nccl ~ \bnccl\b.{0,80}\btimed out\b;
        rendezvous ~ rendezvous\w{0,20}error|rendezvous.{0,60}timed out;
        collective|barrier|tcpstore ~ (?:collective|barrier|tcpstore)\b.{0,80}\btime(?:d
        )?out\b"""),
    Kind("actor_died", "fault", None, None,
        r"""actordiederror; actorunavailableerror; workercrashederror; nodediederror; marked dead;
        worker died or was; connect to gcs; gcs ~ \bgcs\b.{0,60}(?:not reach|fail|lost|dead|died);
        is dead|died ~
        (?:actor|node|raylet|scheduler|engine\w*|detokenizer)\b.{0,60}(?:dead|died)"""),
    Kind("resources", "error", None, "ask for less, or for what a node has of GPUs and memory",
        r"""no available node types; cannot be scheduled; infeasible; gpu capacity;
        resources ~ (?:insufficient|not (?:have )?(?:enough|sufficient)) resources;
        less than total desired; create placement group;
        placement group ~ group.{0,80}(?:timed out|timeout|not ready)"""),
    Kind("hang", "fault", None, "what it waits for does not answer: look at that server's log",
        r"""watchdog time; timeout check failed; not up yet; still waiting; for recv operation;
        for send operation; rpc call to ~ rpc call to \w{1,60} timed out; memory broadcast block;
        couldn't get a response; waiting ~ \btimed? ?out (?:after .{1,20} )?waiting (?:for|on)\b;
        server|engine|worker ~ (?:server|engine|worker)s?\b.{0,60}(?:did not|didn't|failed
        to|never) (?:start|co|be)"""),
    Kind("killed", "fault", "helps", "starting again helps, but watch memory if it was signal 9",
        r"""sigkill; sigsegv; sigbus; segmentation fault; segfault; bus error; terminated abruptly;
        signal: killed; signal ~ \bsignal (?:9|11)\b; killed ~ ^killed\s*$|\d\s{1,9}killed\b;
        exit|return ~ \b(?:exit|return)(?:ed)? ?(?:with
        )?(?:code|status)?[\s:=(]*(?:-(?:9|11|7)|13[579])\b"""),
    Kind("nan", "error", None, "find which figure went first; lower the rate or skip that batch",
        r"""found inf; non-finite; loss scale already at minimum;
        nan ~ (?:found|detected) nan\b|\bnan (?:or inf )?(?:found|detected|loss|in)\b;
        nan ~ (?:loss|grad|norm|logits?|rewards?) (?:is|are|was|became|contains?) nan\b"""),
    Kind("quota", "request", CHANGE, "waiting or starting again will not help: raise the limit",
        """insufficient_quota; exceeded your current quota; spend limit; spending limit;
        billing hard limit; credit balance; payment required; insufficient credit"""),
    Kind("rate_limited", "request", None, "wait, or use a token or a mirror with a higher limit",
        rf"""too many requests; toomanyrequests; ratelimiterror; rate limit reached;
        rate limit exceeded; 429 ~ \b429 client error|{_status("429")}"""),
    Kind("auth", "request", CHANGE, "start it again once it has a valid token that may read that",
        rf"""401|403 ~ \b40[13] (?:client error|unauthorized|forbidden)|{_status("40[13]")};
        unauthorized ~ \bunauthorized\b(?! [\w ]{{1,60}}[:=] ?\d);
        access gated repo; access a gated repo; gatedrepo; gated repo for;
        invalid ~ invalid (?!eos|bos|pad|unk|stop)(?:\w+ )?token\b(?! id| type); invalid api key;
        incorrect api key; api key must; proxy authorization; authenticationerror; accessdenied;
        access denied; permission_denied; permissiondenied; no auth credentials;
        forbidden ~ \bforbidden\b; unable to locate credentials;
        permission ~ permission\b.{{0,60}}denied; does not have ~ does not have \S{{1,60}} access;
        expiredtoken; invalidclienttoken; invalid_api_key; api_key not configured; no api key"""),
    Kind("server_error", "request", None, "the server that it calls fails: look at its log",
        rf"""500|502|503|504 ~ \b50[0234] (?:server error|bad gateway)|{_status("50[0234]")};
        internal server error; service unavailable; bad gateway; gateway timeout;
        no available workers; no_available_workers; overloaded; http error"""),
    Kind("network", "request", "helps", "check that what it calls is up; then starting again helps",
        """connection refused; connection reset; connection aborted; connection attempts failed;
        establish a new connection; failed to resolve; name resolution; name or service not known;
        no route to host; network is unreachable; server disconnected; couldn't connect;
        can't be reached; cannot connect to host; max retries exceeded; read timed out; readtimeout;
        connecttimeout; connecterror; connectionerror; remoteprotocolerror; incompleteread;
        heartbeat attempt failed; request error; request timed out; apitimeout; connection broken;
        connection closed by; remote end closed; remotedisconnected"""),
    Kind("missing", "error", CHANGE, "name something that exists before you start it again",
        r"""filenotfounderror; no such file or directory; modulenotfounderror; notfounderror;
        not a valid model identifier; no module named; 404 client error; does not exist;
        not found ~ (?:file|path|revision|dataset|model|checkpoint)s?\b.{0,60} not found|^\S{0,9}sh:
        .{0,80}: (?:command )?not found; no matching distribution; could not find a version; can't
        load tokenizer; can't load the"""),
    Kind("config", "error", CHANGE, "the settings do not fit: start it again only after a change",
        r"""divisible; out of resource:; roles must alternate; jinja ~ jinja2\.exceptions;
        chat template; chat_template; backendcompilerfailed; error building extension;
        build stopped; build failed; cuda_home; undefined symbol; size mismatch;
        unrecognized arguments; validationerror;
        find c compiler; address already in use; could not override; .py: error: ; is not in struct;
        does not recognize this architecture; mandatory value"""),
    Kind("traceback", "error", None, None,
        "check failed:; assertion `; double free or; corrupted size; free():"),
)  # fmt: skip
OTHER = KINDS[-1]


def _listed(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(";"))


# Numbers that tell of a failure, and words of what else fails.
NUMBERS = re.compile(r"[458](?<!\w.)(?:0[0-4]|29)\b")
TRACES = _listed("""error; exception; interrupt; exit; retr; attempt; fail; fatal; kill; died; timed
    out; timeout; connect; expired:; closed:; backing off; (try""")
# What only passes on what another process or line tells, or how a process ends after it.
ECHO = re.compile(
    r"(?:[\w.]{0,200}\.)?(?:(?:actordied|actorunavailable|raytask|childfailed|calledprocess|eof"
    r"|enginedead|workercrashed|cancelled|brokenpipe|gettimeout)error|checkpointexception"
    r"|keyboardinterrupt|systemexit|nccl\w{0,20}error)\b"
)
ECHOES = _listed("""sigabrt; error: aborted; terminate called; sigterm; sigquit; root cause above;
    (above); connection closed by; tcpstore server has shut; recvvalue failed; socket recv failed;
    remote process exited; child failed; nccl error in; exited unexpectedly; terminated
    unexpectedly; worker died or was; relevant logs; is dead because; closing signal; core
    dumped; uncaught exception raised""")
RETRY = _listed("""retrying; will retry; not up yet; no available node types; attempt failed;
    backing off; cannot be scheduled; still waiting; health check failed; thrown while
    requesting""")
ATTEMPT = re.compile(
    r"(?:\b(?:attempt|retry|try)[ \":=#]+|\((?=\d{1,4}/\d{1,4}\)))"
    r"(\d{1,9})(?: ?(?:/|of) ?(\d{1,9}))?"
)
SYNCED = ("network", "server_error", "rate_limited", OTHER.name)
# What says itself that it goes on without, and whose death is that of code that is tried out.
HANDLED = _listed("""returning reward; returning zero; returning 0; returned to model; returned to
    the model; masked; skipping; skipped; ignoring; ignored; ignore import error; may not be an;
    non-critical; harmless; fallback; fall back; falling back; continuing; not be exported;
    returning error; returning an error; restarting; using default; trying to resume; killing actor;
    scoring; score=0; score 0; scored 0; reward=0; reward 0; resubmit""")
TRIED_OUT = _listed("sandbox; agent; time limit; test case; testcase; submission; repro.py")
SUCCESS = _listed("""successfully restarted; fired up and ready; startup complete; reconnected; back
    online; server is ready; engine is ready; is healthy; resolved after; recovered; succeeded
    after; succeeded on; resuming from; resumed from; " 20; added worker""")
SIDES: dict[Side, tuple[str, ...]] = {
    "rollout": _listed("""rollout; sglang; llm; engine; serve; infer; agent; reward; rm_fn; judge;
        sandbox; router; generat; eval; sampl; prompt; perf; decode"""),
    "training": _listed("""megatron; fsdp; train; actormodel; critic; policy; learner; optimizer;
        iteration; checkpoint; timer"""),
}
STAMPED = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* "
# How modal goes on with a line that an entry ended with a carriage return.
MOVED_UP = re.compile(rb"(?:\A|\n)(%b)\x1b\[1A(?:\r(?:%b)?|(?=\n))" % (STAMPED, STAMPED))
BLANK = re.compile(rb"(?:%b)?\s*" % STAMPED)
STAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) ?")
# Ray's prefixes, torchrun's and a launcher's, which tell the process.
WRITER = re.compile(
    r"(?:\([A-Za-z_][^()\s]*(?: [^()]*)?\) ?|\[[Rr]ank ?\d+\]: ?|\[(?!(?:prompt|response|score|step"
    r"|ground_truth|rollout|info|debug|warn|warning|error|critical|fatal)\])[a-z][a-z_-]+\] )+"
)
# What loggers write before a message: times, levels, files, ranks, NCCL's node:pid:tid.
HEAD = re.compile(
    r"(?:\[(?!(?i:prompt|response|score|ground_truth|rollout|step)\b)[^\]]*\]:?\s*(?:\(\w+\) )?"
    r"|(?:\d{4}-\d\d-\d\d[ T]|\d{8}-|\d\d-\d\d (?=\d\d:))?\d\d:\d\d:\d\d[\d,.:]*\s*[|-]*\s*"
    r"|[EWIF]\d{4} [\d:.]+ +\d+ [^\s\]]+\]\s*|[\w.-]+:\d+:\d+ \[\d+\] (?:\S+:\d+ )?(?=NCCL)"
    r"|[\w/-]*\.[\w./-]+(?::[\w<>]+)?:\d+\]?\s*[-:]*\s+|[A-Za-z_]\w*(?:\.\w+)+ - |(?:-+|>>) "
    r"|(?:INFO|DEBUG|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|SUCCESS)\b[\s:|-]*(?:\w+:(?=\S))?)*"
)
GROUPED = re.compile(r" +(?:\| |\+[ -])[-+ \d]{0,200}")  # of an exception group
# Where records of JSON tell their level, message and time; the figures of a step.
LEVEL_FIELDS = ("level", "severity", "levelname", "lvl", "log_level")
MESSAGE_FIELDS = ("message", "msg", "event", "error", "err", "reason", "exception", "exc_info")
TIME_FIELDS = ("ts", "time", "asctime", "timestamp", "@timestamp")
FIGURE = re.compile(r"loss|reward|grad_norm|entropy")
LOGGED = re.compile(r"\d\d:\d\d|[A-Z]{4}")
MILD = re.compile(r"\b(?:INFO|DEBUG|WARN|WARNING)\b|(?:^|\[|\d )[IW]\d* \d")
SEVERE = re.compile(r"\b(?:ERROR|ERR|CRITICAL|FATAL)\b|(?:^|\[|\d )[EF]\d* \d")
REPEATED = re.compile(r" *\[repeated (\d{1,9})x across cluster\].*")
NOISE = re.compile(
    r"(?i:.{0,80}\bhealth.?check\b.{0,80}\b(?:ok|passed)\b)"
    r'|[^"]*"(?:GET|HEAD) /(?:v\d/)?(?:health|ping|livez|ready|metrics|get_(?:server|model)_info)'
)
STEP = re.compile(
    r"(?i:\W{0,40}(?:(?:global |train )?step|(?:training )?(?:rollout|step)|perf|eval|iteration)"
    r"[ :=]+\d+(?:/ *\d+)? *(?:[:|,=\]]|- ))|Timer (?!\S*wait\b)\S+ (?:start|end)\b"
    r"|\{'[\w/]*(?:loss|reward|grad_norm)[\w/]*': "
)
TOKENS = re.compile(r"Decode batch|.{0,80}(?:Avg|gen) .{0,20}throughput.{0,12}: [1-9]")
SUCCEEDED = re.compile(r"\bsucce")
UNSAVED = _listed("not; n't; will; fail; error")
# What says of the step that it names that it failed; figures are none, whatever their names.
BROKEN = re.compile(
    r"\s*(?:[A-Za-z]+ )?(?i:failed|aborted|crashed)(?:[,.;!]|\s*$| (?:after|due|on|with)\b)"
)
FIGURES = re.compile(
    r"(?<!attempt )(?<!try )\b\d+ (?:of|in) \d|\s\|\s|, \w+ \d+\s*$"
    r"|[:=] ?-?\d+(?:\.\d+)?(?:[,;|]|\s*$)"
)
WARNING = re.compile(r"(?:\w+Warning|DeprecationError)\b")
# Where a line quotes data, such as a sample printed on one line: what follows is no failure.
QUOTE = re.compile(r"[\[{(](?<!Error.)(?<!Exception.)(?!'[\d.]+', \d)\s*[\"']|\\n")
SAMPLE = re.compile(
    r"(?i:finish rollout|(?:(?:first )?(?:rollout )?sample|prompt|response|completion"
    r"|answer))(?:\s*[:=]|\s*\d*\s*[:=]?\s*[\"'<\[{(])"
)
# Lines of tables and of test runs; blocks of data, from a mark to the mark of their end.
TABLE = re.compile(r"[\u2500-\u259f]|\|.*\|$|E   |(?:FAILED|ERROR) \S+\.py\b|[=_]{5,} ")
PYTEST = re.compile(r"\.py:\d+: [A-Z]\w{0,60}$")
OPENS = re.compile(
    r"(?i:\[(?:prompt|response)\]|(?:first )?(?:rollout )?sample\b.{0,20}:$"
    r"|[-=*#<\[ ]*(?:captured )?std(?:out|err)\b.{0,40}$|(?!.{0,80}\bend of).{0,80}"
    r"\b(?:tool|sandbox|test|program|code)\b.{0,60}\boutput(?: follows|:)?$)"
    r"|=+ (?:FAILURES|ERRORS) =+"
)
MARKS = _listed("output; stdout; stderr; sample; [prompt]; [response]; = failures; = errors")
CLOSES = re.compile(r"(?i:\[score\]|[-=*#]{3,}|</?std|.{0,80}\bend of )|=+ .{0,80} in [\d.]+s")
# A file of code that is tried out; what comes before a traceback that ended nothing.
TEMPORARY = re.compile(
    r'File "(?:/tmp/(?!ray/)|/var/folders/|<(?!frozen)'
    r'|[^"]*\b(?:sol|solution|submission|candidate)\.py)'
)
UNHEEDED = ("Exception ignored in", "Task exception was never", "Future exception was never")
# Code that judges what the model wrote; what tells of an error within a program's output.
GRADER = re.compile(
    r"(?i:reward|grader|judge|sandbox|verif(?:y|ier)|scor(?:e|er|ing)\b|test_?case|sympy|latex|swe|\btool"
    r"|serving_|starlette|^Exception in thread)"
)
WRONG = re.compile(r"\berror\b|\bfatal\b|: (?:command )?not found\b")
# An exception's line that output or a list follows, flush left.
OUTPUTS = re.compile(r":$|\boutput\b.{0,80}$|\bextension '[^']{0,80}': ")
LISTS = re.compile(r"validation errors? for \w+$|\(Request ID: [^)]*\)$")
BARE = re.compile(r"KeyError: '[^']*'")
BETWEEN = ("During handling of", "The above exception", "ray::")
# A line that ends a traceback, and one that tells of an exception by its name alone.
NAMED = re.compile(r"(?:\w+\.)*\w+(?:\([\w.]+\))?(?::|\s*$)")
EXCEPTION = re.compile(
    r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)(?:\([\w.]+\))?(?::|$)"
    r"|Exception(?::|$)|(?:[a-z_]\w*\.)+[A-Z]\w*(?:Timeout|Expired|Closed|Disconnected|Exceeded):"
    r"|(?:StopIteration|Fatal Python error)\b"
)
ANSWERED = re.compile(r'"(?:POST|PUT|GET) (/\S*) HTTP/[\d.]+" 20\d')
URL = re.compile(r"https?://[^/\s]+(/[^\s,')?]*)?")
ENDED = re.compile(
    r"(?:job '?[\w-]+'? succeeded|(?:after )?training (?:is |was |has )?(?:done|complete|finish)"
    r"|run (?:has )?(?:completed|finished)\b|finished training)"
)
GONE = re.compile(
    r"\b(?:runner|job|process|app|run|training|script|failed)\b.{0,60}\bcode:? ?[1-9]"
    r"|\buncaught exception raised|^job '[\w-]+' failed\b"
)
BAR = re.compile(r"[^|]{0,200}\| *([\d.]{1,15}[kMGT]?)/([\d.]{1,15}[kMGT]?) \[")
LOADS = re.compile(r"(?i:load|fetch|captur|compil|download|shards|warm)")
COUNTED = re.compile(r"\b(\d[\d,]{0,15})(?: of | ?/ ?| out of )(\d[\d,]{0,15})\b(?!/|%)")
STATED = re.compile(
    r"(?:ran for|waiting|after|within|timeout(?:\(ms\))?=) ?(\d{1,9})(?:\.\d+)? ?"
    r"(?:ms|milli|s\b|sec|min)?"
)
BOILERPLATE = re.compile(
    r"\W*$|For more information|Traceback \(|File \"|raise \w|During handling|The above exception"
    r"|.{0,80}(?:HYDRA_FULL_ERROR|To enable trace)|Compile with `|For debugging|CUDA kernel errors"
)


Hint: TypeAlias = tuple[int, str]  # a kind's place, and the regex that has to be found as well
NO_DIGITS = str.maketrans("", "", "0123456789")


def _has(text: str, words: Iterable[str]) -> bool:
    return any(map(text.__contains__, words))


@cache  # since most runs of the tool need none of them
def _hints_by_word() -> dict[str, list[Hint]]:
    """What each word hints at: no kind beyond the last place."""
    hints: dict[str, list[Hint]] = {trace: [(len(KINDS), "")] for trace in TRACES}
    for place, kind in enumerate(KINDS):
        for words, _, regex in (part.partition(" ~ ") for part in _listed(kind.words)):
            for word in words.split("|"):
                hints.setdefault(word, []).append((place, regex))
    return hints


@lru_cache(maxsize=2_000)  # but for their digits, most lines of a log are like others of it
def _hints_in(text: str) -> tuple[Hint, ...]:
    hints = _hints_by_word()
    return tuple(hint for word in filter(text.__contains__, hints) for hint in hints[word])


def _hints(text: str) -> tuple[Hint, ...]:
    """What a text in lower case hints at; nothing, where it tells of no failure for sure."""
    return _hints_in(text if NUMBERS.search(text) else text.translate(NO_DIGITS))


def kind_of(message: str) -> Kind | None:
    """The kind of failure that a message tells of, if it does."""
    text = message.lower().partition("potential root causes")[0].partition("common causes")[0]
    found = (place for place, regex in sorted(_hints(text)) if re.search(regex, text))
    return next((KINDS[place] for place in found if place < len(KINDS)), None)


@lru_cache(maxsize=2_000)
def _side(text: str) -> Side:
    lowered = text.lower()
    sides = (side for side, words in SIDES.items() if _has(lowered, words))
    return next(sides, "both")


def _echoes(said: str) -> bool:
    lowered = said.strip().lower()
    return bool(ECHO.match(lowered)) or _has(lowered, ECHOES)


def _unquoted(said: str) -> str:
    return "" if SAMPLE.match(said) else QUOTE.split(said, maxsplit=1)[0]


# ======================================================================================
# Diagnosis: a log tail -> events -> what still stands of them -> the cause, and how far the
# work has come. Pure: it knows of no run and of no clock.
# ======================================================================================

# Seconds within which one failure may have led to the next, where no timeout says more; within
# which a line that only mentions one explains another; that Modal gives a preempted container;
# for which a failure of what grades answers has to be the last before it counts.
CHAIN, CLOSE, GRACE, QUIET = 60.0, 20.0, 30.0, 180.0
# Retries of one thing that are a blocker: so many, for so long (while all starts, for this many
# times that) or of that share of the attempts.
RETRIES, RETRIED_FOR, STARTING, ATTEMPTS_USED = 3, 60.0, 3, 0.75
# Characters of the longest line that opens a block of data.
OPENING = 120
# Lines of a message or of the output in it that are read, and of these that are told.
OUTPUT, SAID = 60, 4
# Seconds between two states of a counter from which its speed is told.
MEASURED = 10.0


class Line(NamedTuple):
    """A line without its prefixes: the process's are its writer, a logger's its head."""

    number: int
    stamp: str
    writer: str
    head: str
    message: str  # with its indentation

    @property
    def at(self) -> EpochSeconds:
        """When it was written; 0 where nothing tells."""
        return _time(self.stamp) or 0.0


class Progress(NamedTuple):
    """How far the work of a phase is, by a counter; a total of 0 is none."""

    what: str
    done: int
    total: int
    per_second: float | None = None
    left_seconds: Seconds | None = None


class Event(NamedTuple):
    """What some lines of one writer tell: `numbers` are theirs, `line` is the one to show."""

    what: Literal[
        "failure", "retry", "progress", "counter", "success", "end", "shut", "gone", "data"
    ]
    line: Line
    numbers: tuple[int, ...] = ()
    kind: Kind = OTHER
    side: Side = "both"
    mention: bool = False
    tried: bool = False  # by what grades answers: it fails often, and scores 0
    uncaught: bool = False  # so that nothing tries again
    attempt: int = 1
    attempts: int = 0
    counter: Progress = Progress("", 0, 0)

    @property
    def echo(self) -> bool:
        """Whether a failure only passes on what another process or line tells."""
        own = self.kind.nature != "request" and self.kind.name not in ("actor_died", "traceback")
        return not own and _echoes(self.line.message)


@dataclass(frozen=True)
class Blocker:
    """What the run fails on: how often that came, first and last, and what it led to."""

    kind: str
    line: str
    count: int
    at: EpochSeconds | None
    first_at: EpochSeconds | None = None
    led_to: str | None = None
    above: bool = False  # the lines that are shown


@dataclass(frozen=True)
class Diagnosis:
    """What the log tail tells."""

    blocker: Blocker | None = None
    activity: str | None = None
    activity_at: EpochSeconds | None = None
    since: EpochSeconds | None = None  # the time of its first line
    noise: bool = False  # it holds nothing but health checks
    failed_at: EpochSeconds | None = None  # the last failure
    alive_at: EpochSeconds | None = None  # the newest sign of life
    progress: Progress | None = None
    begins_above: bool = False  # the chain of its failures may begin before it
    whole: bool = False  # it is the whole log


def diagnose(tail: str, asked: int = 0) -> Diagnosis:
    """Judge the output of `modal app logs --timestamps`, of which so many entries were asked."""
    lines = list(_lines(tail))
    whole = tail.count("\n") + (not tail.endswith("\n")) < asked
    if not lines:
        return Diagnosis(whole=whole)
    written: dict[str, list[Line]] = {}
    for line in lines:
        written.setdefault(line.writer, []).append(line)
    events = [event for said in written.values() for event in _events(said)]
    events.sort(key=lambda event: event.line.number)
    signs = [event.line for event in events if event.what == "progress"]
    patience = RETRIED_FOR if signs else RETRIED_FOR * STARTING
    chain = _chain(_standing(events, lines[-1].at), patience)
    cause = _cause_of(chain)
    passed = {number for event in events for number in event.numbers}
    left = (line for line in reversed(lines) if line.number not in passed)
    telling = (line for line in left if not BOILERPLATE.match(line.message.strip()))
    active = next((line for line in telling if not NOISE.match(line.message)), None)
    before = cause and signs and signs[0].number < cause.first.line.number
    return Diagnosis(
        blocker=_blocker(cause, chain) if cause else None,
        activity=active.message.strip() if active else None,
        activity_at=active.at or None if active else None,
        since=lines[0].at or None,
        noise=all(NOISE.match(line.message) for line in lines),
        failed_at=_newest(event.line.at for event in events if event.what == "failure"),
        alive_at=signs[-1].at if signs else None,
        progress=_progress(events),
        begins_above=cause is not None and not whole and not before,
        whole=whole,
    )


def with_earlier(shown: Diagnosis, longer: Diagnosis) -> Diagnosis:
    """What a tail tells, with the blocker that a longer one with the same end does."""
    blocker, since = longer.blocker, shown.since
    if blocker is None or blocker.at is None or since is None:
        return shown
    return replace(shown, blocker=replace(blocker, above=blocker.at < since))


def last_states(lines: bytes) -> bytes:
    """Whole lines as a terminal leaves them: of one that is written over, a bar, its last state."""
    if b"\x1b[1A" in lines:
        lines = MOVED_UP.sub(rb"\r\1", lines)
    return b"\n".join(_last_state(each) if b"\r" in each else each for each in lines.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    states = line.split(b"\r")
    last = next((state for state in reversed(states) if not BLANK.fullmatch(state)), states[-1])
    stamp = re.match(STAMPED, line)
    return last if stamp is None or re.match(STAMPED, last) else stamp[0] + last


def _lines(tail: str) -> Iterator[Line]:
    stamp = named = ""
    drawn = last_states(tail.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    for number, entry in enumerate(drawn.split("\n")):
        stamped = STAMP.match(entry)
        start = stamped.end() if stamped else 0
        stamp = stamped[1] if stamped else stamp
        text = entry[start : start + LOG_LINE_LIMIT]
        text = clean(text.replace("\t", "    ")).rstrip()
        written = WRITER.match(text)
        text, writer = (text[written.end() :], written[0]) if written else (text, named)
        grouped = GROUPED.match(text)
        text = text[grouped.end() :] if grouped else text
        lead = len(text) - len(text.lstrip())
        end = cast("re.Match[str]", HEAD.match(text, lead)).end()
        if not written and end > lead:  # what has neither goes on with what a launcher passes on
            writer = ""
        named = writer if writer.endswith("] ") else ""
        if end > lead:  # loggers set messages in, too: a traceback's lines by more than a space
            lead += max(0, end - len(text[:end].rstrip()) - 1)
        head, said = text[:end].strip(), text[end:]
        if said.startswith('{"'):
            head, said = _record(head, said)
        if said:
            yield Line(number, stamp, writer, head, " " * lead + said)


def _record(head: str, said: str) -> tuple[str, str]:
    """The head and the message that a JSON object tells as fields of a record, if it does."""
    try:
        record = json.loads(said)
    except (ValueError, RecursionError):
        return head, said
    if "step" in record and any(map(FIGURE.search, record)):
        return head, f"step {record['step']}: {said}"
    level = next((str(record.pop(key)).upper() for key in LEVEL_FIELDS if key in record), "")
    if not level:
        return head, said
    texts = [str(record.pop(key)).strip() for key in MESSAGE_FIELDS if record.get(key)]
    texts = [text.rpartition("\n")[2] for text in texts]  # of a traceback its exception,
    texts.sort(key=lambda text: not EXCEPTION.match(text))  # which comes first
    rest = {key: value for key, value in record.items() if key not in TIME_FIELDS}
    return f"{head} {level}", f"{': '.join(texts)} {json.dumps(rest)}"


def _events(said: Sequence[Line]) -> list[Event]:
    """What the lines of one writer tell, each failure with what the next line says of it."""
    events: list[Event] = []
    counted: dict[str, int] = {}
    ending = False  # what comes after that signal is how it ends
    at = ended = 0
    while at < len(said):
        start, line = at, said[at]
        at, event = _next_event(said, start)
        ending |= "SIGTERM received" in line.message
        if event and event.counter.total:
            what, done, total, *_ = event.counter
            rises = done > counted.get(what, total - 1)
            counted[what] = done
            event = event._replace(what="progress") if rises else event
        last = events[-1] if events else Event("data", line)
        previous = last if start == ended else Event("data", line)
        moves = event is not None and event.what == "progress"
        if event and _goes_with(event, last):
            events[-1] = last._replace(what="retry", attempt=event.attempt, attempts=event.attempts)
        elif previous.what == "failure" and _has(line.message.lower(), HANDLED) and not moves:
            events[-1] = last._replace(what="retry")
        elif event and not (ending and event.what == "failure"):
            retried = previous.attempt < previous.attempts and not event.uncaught
            retried &= event.what == "failure"
            events.append(event._replace(what="retry") if retried else event)
            ended = at
    return events


def _goes_with(retry: Event, last: Event) -> bool:
    """Whether that is the retry of what was mentioned just before."""
    mentioned = retry.what == "retry" and last.what == "failure" and last.mention
    return mentioned and retry.kind in (OTHER, last.kind) and retry.line.at - last.line.at <= 1


def _next_event(said: Sequence[Line], at: int) -> tuple[int, Event | None]:
    """What the line there begins, and where the next begins."""
    line = said[at]
    if line.message.startswith(UNHEEDED):
        opens = (n for n in range(at + 1, min(at + 3, len(said))) if _opens_traceback(said[n]))
        return next((_traceback(said, n)[0] for n in opens), at + 1), None
    if _opens_traceback(line):
        return _traceback(said, at)
    short = len(line.message) <= OPENING and _has(line.message.lower(), MARKS)
    if "<|" in line.message or (short and OPENS.match(line.message)):
        return _data_end(said, at), None
    return at + 1, _event(line)


def _data_end(said: Sequence[Line], start: int) -> int:
    """Where the block of data that begins there ends."""
    logged = said[start].head or "<|" in said[start].message
    for end in range(start + 1, len(said)):
        message = said[end].message
        closes = CLOSES.match(message)
        if STEP.match(message) or (logged and said[end].head and not closes):
            return end
        if closes and not OPENS.match(message):
            return end + 1
    return len(said)


def _opens_traceback(line: Line) -> bool:
    message = line.message
    begins = message.startswith(("ray::", "Unhandled error (sup"))
    return begins or "Traceback (most" in message or message.lstrip(" >").startswith('File "')


def _thrown(said: Sequence[Line], start: int) -> tuple[list[Line], list[str], int]:
    """Of the traceback, or the chain of them, there: its exceptions, its frames, where it ends."""
    exceptions: list[Line] = []
    frames: list[str] = []
    opens = said[start].message
    base = len(opens) - len(opens.lstrip()) if opens.lstrip().startswith("Traceb") else 0
    in_frames, at = True, start
    while at < len(said):
        line = said[at]
        message = line.message[base:] if line.message[:base].isspace() else line.message
        set_in = message.startswith((" ", "> File", "^"))
        if 'File "' in message:
            frames.append(message)
        if message.startswith(BETWEEN) or (_opens_traceback(line) and (in_frames or set_in)):
            in_frames = True
        elif not in_frames or STEP.match(message.strip()) or not (set_in or NAMED.match(message)):
            break
        elif not set_in:
            at, whole = _whole_message(said, at)
            exceptions.append(whole)
            in_frames = False
            continue
        at += 1
    return exceptions, frames, max(at, start + 1)


def _traceback(said: Sequence[Line], start: int) -> tuple[int, Event]:
    """What the traceback, or the chain of them, that begins there tells, and where it ends."""
    exceptions, frames, end = _thrown(said, start)
    numbers = tuple(line.number for line in said[start:end])
    if not exceptions or (frames and all(map(TEMPORARY.search, frames))):
        return end, Event("data", said[start], numbers)
    cause = _first_cause(exceptions)
    before = said[start - 1].message if start else ""
    seen = (said[start].writer, before, said[start].message, *frames[:1])
    # Nobody caught what passed the outermost frame, or what another process tells.
    uncaught = "in <module>" in "".join(frames) or any(_echoes(line.message) for line in exceptions)
    mild = MILD.search(said[start].head) and not SEVERE.search(said[start].head)
    handled = mild or _has(before.lower(), HANDLED)
    tried = any(map(GRADER.search, seen)) and not uncaught
    kind, side = kind_of(cause.message) or OTHER, _side(cause.writer)
    event = Event("retry" if handled else "failure", cause, numbers, kind, side)
    return end, event._replace(tried=tried, uncaught=uncaught)


def _first_cause(exceptions: Sequence[Line]) -> Line:
    """The first of a chain but for what only points elsewhere, and for another library's name."""
    names = [line.message.partition(":")[0].rpartition(".") for line in exceptions]
    own = (n for n, line in enumerate(exceptions) if not _echoes(line.message))
    first = next(own, len(exceptions) - 1)
    if BARE.fullmatch(exceptions[first].message):  # looked up; what failed over that tells more
        first = next((n for n, line in enumerate(exceptions) if kind_of(line.message)), first)
    while names[first + 1 :] and names[first][2] == names[first + 1][2] and names[first][0]:
        first += 1
    return exceptions[first]


def _whole_message(said: Sequence[Line], at: int) -> tuple[int, Line]:
    """An exception's line with what it goes on with: lines set in, or the output it announces."""
    first, message = said[at], said[at].message.strip()
    announced = OUTPUTS.search(message)
    margin = "" if announced or LISTS.search(message) else "  "
    logged = bool(LOGGED.search(first.head))
    parts: list[str] = []
    for line in said[at + 1 : at + OUTPUT]:
        part = line.message.strip()
        begins = _opens_traceback(line) or part.startswith(BETWEEN)
        alike = bool(LOGGED.search(line.head)) == logged and line.message.startswith(margin)
        if begins or not alike or line.at - first.at > 1:
            break
        parts.append(part)
    end = at + 1 + len(parts)
    if announced:
        parts = [part for part in parts if kind_of(part) or WRONG.search(part.lower())]
    telling = (part for part in parts if not BOILERPLATE.match(part))
    whole = " ".join([message, *itertools.islice(telling, SAID - 1)])
    return end, first._replace(message=whole)


def _event(line: Line) -> Event | None:
    """What a line tells that is part of no traceback and of no block of data."""
    message = line.message.strip()
    lowered = message.lower()
    begun = STEP.match(message)
    whole = f"{line.head} {message}".lstrip()
    if not begun and (TABLE.match(whole) or PYTEST.search(whole) or NOISE.match(message)):
        return None
    if "%|" in message:
        return _counter(line, message)
    said = message[begun.end() :].lstrip() if begun else message
    before, word, _ = lowered.partition("saved")
    saved = word and "checkpoint" in lowered and not _has(before, UNSAVED)
    done = (begun or saved) and not BROKEN.match(said)
    figures = done and FIGURES.search(_unquoted(said[:300]))
    suspect = not figures and _hints(lowered) and not SUCCEEDED.search(lowered)
    failing = _failing(line, message, said) if suspect else None
    if not failing and (done or TOKENS.match(message)):
        side = _side(message[:40].translate(NO_DIGITS))
        return Event("progress", line, side=side if side != "both" else _side(line.writer))
    return failing or _outcome(line, message) or _counter(line, message)


def _outcome(line: Line, message: str) -> Event | None:
    """What a line tells of how something ended."""
    lowered = message.lower()
    if _has(lowered, SUCCESS):
        return Event("success", line)
    ends = _has(lowered, ("code", "uncaught", "job '"))
    if ends and GONE.search(lowered) and not _has(lowered, HANDLED):
        return Event("gone", line)
    if message.startswith("{'train_runtime"):
        return Event("shut", line)
    return Event("end", line) if ENDED.match(lowered) else None


def _failing(line: Line, message: str, said: str) -> Event | None:
    """A failure or a retry that one line tells."""
    lowered = message.lower()
    warned = WARNING.match(said)
    named = None if warned else EXCEPTION.match(said)
    attempt = ATTEMPT.search(lowered)
    retry = attempt or _has(lowered, RETRY)
    known = kind_of(message if named else _unquoted(said))
    if retry or (known and known.nature == "request"):  # a reply may be quoted, which tells why
        whole = kind_of(message)
        known = whole if whole and whole.nature == "request" else known or whole
    kind = known or OTHER
    unheard = kind.nature != "fault" if warned else not (named or retry or known)
    # W&B tries again by itself, for days.
    unheard |= message.startswith("wandb: ") and kind.name in SYNCED
    if unheard or _has(lowered, HANDLED) or (BOILERPLATE.match(message) and not retry):
        return None
    around = f"{line.writer} {line.head} {lowered}".lower()
    if kind.name in ("killed", "host_oom", "hang") and not named and _has(around, TRIED_OUT):
        return None
    event = Event("failure", line, (line.number,), kind, _side(line.writer))
    event = event._replace(mention=not named, tried=GRADER.search(line.writer) is not None)
    if not retry and (named or not _is_minor(line, message, kind.name)):
        return event
    first, of = attempt.groups(default="0") if attempt else (int(bool(retry)), 0)
    return event._replace(what="retry", attempt=int(first), attempts=int(of))


def _is_minor(line: Line, message: str, kind: str) -> bool:
    """Whether a line that mentions a failure is none unless it comes again and again."""
    warned = WARNING.match(message) or message.startswith(("NCCL INFO", "Warning"))
    if warned or MILD.search(line.head):
        return kind not in ("auth", "rate_limited", "quota", "preempted", "timeout")
    if kind in ("network", "server_error"):
        return True
    minor = kind in ("missing", "config", "resources")
    return minor and not SEVERE.search(line.head) and "rror" not in message[:40]


def _counter(line: Line, message: str) -> Event | None:
    """The state of a counter: a progress bar's, or `511 of 1319` in words."""
    if " of " not in message and "/" not in message:  # as most lines
        return None
    mark = message.rfind("%|")
    counted = BAR.match(message, mark + 2) if mark >= 0 else COUNTED.search(message)
    done, total = map(_units, counted.groups()) if counted else (0, 0)
    if counted is None or not 1 < total <= COUNT_LIMIT or done > total:
        return None
    before, _, what = message[: mark if mark >= 0 else counted.start()].rpartition("]")
    what = what.rstrip("0123456789 %:") or re.sub(r"[^A-Za-z ]+", "", before)
    side: Side = "rollout" if _side(what + line.writer) == "rollout" else "both"
    side = "own" if LOADS.search(message[: mark + 2]) else side
    return Event("counter", line, side=side, counter=Progress(what[-60:].strip(), done, total))


def _units(written: str) -> int:
    """A bar's figure, `880M` or `1,024`, as the number that it is; 0 where it is none."""
    digits = written.replace(",", "").rstrip("kMGT")
    factor = 1_000 ** ("kMGT".find(written[-1]) + 1)
    return int(float(digits) * factor) if NUMBER.fullmatch(digits) else 0


def _standing(events: Sequence[Event], ended_at: EpochSeconds) -> list[Event]:
    """The failures and retries that neither progress nor success nor the end undid."""
    ends = [n for n, event in enumerate(events) if event.what == "end"]
    events = events[ends[-1] :] if ends else events
    if ends and not any(event.what == "progress" for event in events):
        return []
    shut = next((event.line.number for event in events if event.what == "shut"), math.inf)
    preempted = [event.line.at + GRACE for event in events if event.kind.name == "preempted"]
    again_at = _newest(at for at in preempted if at < ended_at) or -1.0  # Modal started it again
    moved: dict[str, EpochSeconds] = {}
    answered: set[str] = set()
    recovered = passed_on = False
    gone_at = -1.0
    standing: list[Event] = []
    for event in reversed(events):
        line, side, fault = event.line, event.side, event.kind.nature == "fault"
        if event.what == "progress":
            sides = ("rollout", "training", "both") if side == "both" else (side, "both")
            for moving in (line.writer,) if side == "own" else sides:
                moved.setdefault(moving, line.at)
        elif event.what == "success":
            path = ANSWERED.search(line.message)
            answered |= {path[1]} if path else set()
            recovered |= path is None
        elif event.what == "gone" and not moved:
            passed_on, gone_at = True, line.at
        elif event.what in ("failure", "retry") and line.at > again_at:
            later = max(moved.get(side, -1.0), moved.get(line.writer, -1.0)) - line.at
            early = event.what == "failure" and ended_at - line.at < QUIET
            elsewhere = event.what == "retry" or side != "training"
            undone = (
                # A fault is undone by what came after all that was under way has ended.
                later > CHAIN if fault and not event.tried else later >= 0,
                event.tried and early and not passed_on,
                event.mention and fault and shut < line.number,
                recovered and elsewhere and event.kind.nature != "error",
                not answered.isdisjoint(URL.findall(line.message)),
            )
            passed_on |= _echoes(line.message)
            if not any(undone):
                # What a process only mentions before it ends is what it ends of.
                last = event.attempt == 0 and not standing and 0 <= gone_at - line.at <= CLOSE
                standing.append(event._replace(what="failure") if last else event)
    return standing[::-1]


class Group(NamedTuple):
    """The same failure, as often as it came; whether it is a blocker by itself."""

    first: Event
    last: Event
    times: int
    blocks: bool


def _chain(standing: Sequence[Event], patience: Seconds) -> list[Group]:
    """The newest failure that blocks, and what may have led to it, the newest first."""
    alike: dict[object, list[Event]] = {}
    for event in standing:
        url = URL.search(event.line.message) if event.what == "retry" else None
        message = REPEATED.sub("", event.line.message)
        shape = url[0] if url else re.sub(r"https?://\S+|0x[0-9a-f]+|\d+", "0", message)
        alike.setdefault((event.kind.name, event.what, shape), []).append(event)
    groups: list[Group] = []
    for events in alike.values():
        first, last = events[0], events[-1]
        repeats = (REPEATED.search(event.line.message) for event in events)
        times = sum(1 + int(found[1]) if found else 1 for found in repeats)
        lasts = last.line.at - first.line.at >= patience
        lasts |= last.attempt >= ATTEMPTS_USED * (last.attempts or math.inf)
        often = max(times, last.attempt) >= RETRIES
        groups.append(Group(first, last, times, last.what == "failure" or (often and lasts)))
    groups.sort(key=lambda group: group.last.line.number, reverse=True)
    chain: list[Group] = []
    horizon = 0.0
    echoes = True
    for group in itertools.dropwhile(lambda group: not group.blocks, groups):
        if group.last.line.at < horizon and not echoes:
            break
        first = group.first
        waits = first.what == "retry" and first.kind.name == "hang"
        echoes = echoes and (first.echo or waits)  # which say that something was before
        chain.append(group)
        since = group.first.line.at - _stated(group.first) - CHAIN
        horizon = min(horizon or since, since)
    return chain


def _stated(event: Event) -> Seconds:
    """How long a timeout says that it waited, 0 where none does."""
    stated = STATED.search(event.line.message.lower())
    if stated is None or event.kind.name == "timeout":
        return 0.0
    milli = re.search(r"\(ms|ms$|milli", stated[0])
    return int(stated[1]) * (0.001 if milli else 60 if stated[0].endswith("min") else 1)


def _cause_of(chain: Sequence[Group]) -> Group | None:
    """The earliest of a chain, but for echoes; what is only mentioned counts where it is close.

    Retries give way to the exception of a request in which they end.
    """
    ranked: list[tuple[int, int, Group]] = []
    follows: EpochSeconds | None = None
    gave_up = False
    for group in chain:
        first = group.first
        retried, request = first.what == "retry", first.kind.nature == "request"
        close = follows is None or follows - group.last.line.at <= CLOSE
        strong = group.blocks and (retried or not (first.mention and request))
        counts = strong or close or group.times > 1
        weak = not counts or (retried and (gave_up or first.kind is OTHER))
        led = request or (first.kind.nature == "fault" and not first.attempt)
        led &= counts and not first.echo and (not ranked or ranked[-1][2].first.kind != first.kind)
        if group.blocks or led:
            ranked.append((2 if first.echo else int(weak), first.line.number, group))
        if not first.echo:
            follows = first.line.at
            gave_up |= request and not (retried or first.mention)
    return min(ranked, default=(0, 0, None))[2]


def _blocker(cause: Group, chain: Sequence[Group]) -> Blocker:
    first, last = cause.first.line, cause.last.line
    later = (group.first for group in chain if group.last.line.number > first.number)
    echo = next((event.line.message.strip() for event in later if event.echo), "")
    named = EXCEPTION.match(echo)
    name = named[0].strip(":").rpartition(".")[2] if named else " ".join(echo.split()[:6])
    line = REPEATED.sub("", last.message).strip()
    led_to = None if cause.first.echo else name or None
    at, first_at = last.at or None, first.at or None
    return Blocker(cause.last.kind.name, line, cause.times, at, first_at, led_to)


def _progress(events: Sequence[Event]) -> Progress | None:
    """Where the newest counter is, if what it counts is not over."""
    counters: list[Event] = []
    for event in events:
        message = event.line.message.strip()
        if event.counter.total:
            counters.append(event)
        elif event.what == "progress" and "Timer" not in message and STEP.match(message):
            counters.clear()  # what was counted before is over
    while counters and not (counters[-1].what == "progress" or "%|" in counters[-1].line.message):
        counters.pop()
    if not counters or counters[-1].counter.done == counters[-1].counter.total:
        return None
    newest = began = counters[-1]
    what, done, total, *_ = newest.counter
    for event in reversed(counters):
        of = event.line.writer, event.counter.what, event.counter.total
        if of == (newest.line.writer, what, total):
            if event.counter.done > began.counter.done:  # it began anew after that
                break
            began = event
    spent, gained = newest.line.at - began.line.at, done - began.counter.done
    rate = gained / spent if spent >= MEASURED and gained else None
    return Progress(what or "counter", done, total, rate, (total - done) / rate if rate else None)


# ======================================================================================
# Judging: what is true of the run. Pure: `now` is an argument, nothing here reads a clock.
# ======================================================================================

# Seconds without a sign of life after which a live run is possibly stuck: the skill's ten minutes.
STUCK_AFTER = 600.0
# Seconds by which two clocks may differ without a word.
CLOCK_SLACK = 60
# Newest gaps and steps of which the pace is the median: as many as outvote a restart's pause.
PACED = 10
# Times its usual, or its longest, from which a wait is no longer usual.
SLOW_PACES, STUCK_PHASES = 3, 2
# Seconds for which Modal may start another attempt of a run that failed while its app is live.
RETRIED_WITHIN = 900
# Seconds after which a run that still has no app was probably orphaned by what queued it.
ORPHANED_AFTER = 5_400
# Phases in which idle GPUs tell something.
GPU_PHASES = PHASES - BEFORE_THE_LOOP - {"checkpoint_save", "offload_rollout", "offload_train"}
# The word that a rule of the verdict gives, where that isn't the rule's own name.
WORDS = {"finished": "completed", "over": "unknown", "stalled": "slow", "logging": "running"}
PROXY_AUTH = "start it again with a proxy token: send Modal-Key and Modal-Secret (see SKILL.md)"
# How Modal ended a call, and the kind of failure that this is, if any.
KILLED = {
    "timeout": "timeout",
    "terminated": "",
    **dict.fromkeys(("kernel oom kill", "memory manager eviction"), "host_oom"),
    "memory thrashing eviction": "host_oom",
}


@dataclass(frozen=True)
class Usual:
    """What a step or a phase takes: of `count` of them."""

    median: Seconds
    longest: Seconds
    count: int


@dataclass(frozen=True)
class Judgement:
    """What is true of the run at `now`."""

    now: EpochSeconds
    logs: Diagnosis
    blocker: Blocker | None  # what it fails on
    started_at: EpochSeconds | None
    updated_at: EpochSeconds | None
    idle: Seconds | None  # since its newest sign of life
    possibly_stuck: bool  # said of the record alone
    pace: Usual | None
    eta: Seconds | None
    phase_lasted: Seconds | None  # the one under way
    phase_usual: Usual | None
    since_step: Seconds | None
    waited: Seconds | None  # since it was created: for its app, where it has none
    rule: str = "running"  # that of the verdict
    next_step: str | None = None
    restart: str | None = None

    @property
    def word(self) -> str:
        """That of the verdict."""
        return WORDS.get(self.rule, self.rule)

    @property
    def log_is_alive(self) -> bool:
        """Whether the log tells of progress in the last ten minutes."""
        alive_at = self.logs.alive_at
        return alive_at is not None and self.now - alive_at <= STUCK_AFTER


def elapsed(moment: EpochSeconds | None, now: EpochSeconds) -> Seconds | None:
    """How long ago it was, if it is known; a time in the future counts as now."""
    return None if moment is None else max(0.0, now - moment)


def judge(found: Found, now: EpochSeconds, logs: Diagnosis | None = None) -> Judgement:
    """Judge a run from all that was read of it."""
    run, logs = found.run, logs or Diagnosis()
    recorded = [rollout.created_at for rollout in found.rollouts]
    sign = _newest((run.last_sign, *recorded, *(metric.at for metric in found.metrics)))
    idle = elapsed(sign, now)
    last_step = _newest((*recorded, run.attempt_began if any(recorded) else None))
    # Nothing has started that has no app: what stands there is a launcher's stamp.
    started_at = None if _is_queued(found) else run.started_at
    live = run.status == "running" and found.live is True
    calm = found.has_result or run.waits or run.kind == "gateway" or _lacks_container(found)
    possibly_stuck = live and (idle or 0) > STUCK_AFTER and not calm
    pace = _pace(found)
    eta = _eta(found, pace, now) if live and not (possibly_stuck or found.has_result) else None
    judged = Judgement(
        now=now,
        logs=logs,
        blocker=None if live and _is_settled(logs, found) else logs.blocker,
        started_at=started_at,
        updated_at=_newest((sign, run.created_at, started_at)),
        idle=idle,
        possibly_stuck=possibly_stuck,
        pace=pace,
        eta=eta,
        phase_lasted=elapsed(run.phase_began, now) if live else None,
        phase_usual=_phase_usual(run),
        since_step=elapsed(last_step, now),
        waited=elapsed(run.created_at or run.started_at, now),
    )
    return _with_advice(replace(judged, rule=_rule(found, judged)), found)


def _with_advice(judged: Judgement, found: Found) -> Judgement:
    """With what helps against the blocker, or against that for which Modal ended the run."""
    blocker, hardware = judged.blocker, found.hardware or Hardware()
    began = found.run.attempt_began or 0
    killed = KILLED.get(hardware.call_status or "")
    passes_on = blocker and (blocker.kind == "killed" or _echoes(blocker.line))
    # What once failed does not matter then; nor does what only passes on what Modal tells.
    if judged.word == "completed" or (killed is not None and passes_on):
        blocker = None
    name = blocker.kind if blocker else killed
    own = kind_of(blocker.line) if blocker else None  # two kinds may have one name
    named = (kind for kind in KINDS if kind.name == name)
    kind = own if own and own.name == name else next(named, OTHER)
    next_step, restart = kind.next, kind.restart
    if blocker and blocker.kind == "auth" and ".modal.run" in blocker.line:
        next_step = PROXY_AUTH
    # Containers fail one after the other, of what failed the attempt before too.
    again = blocker and (blocker.first_at or began) < began <= (blocker.at or 0)
    if again and (hardware.container_errors_last_hour or 0) > 1:
        loop = "starting again will not help, every attempt ends so"
        next_step, restart = f"{loop}: {next_step}" if next_step else loop, CHANGE
    return replace(judged, blocker=blocker, next_step=next_step, restart=restart)


def cause_of_end(run: Run) -> str | None:
    """The reason, or of an error the exception's own line, which advice may follow, or its last."""
    causes = [line for line in run.error if EXCEPTION.match(line) or kind_of(line)]
    return run.reason or next(iter([*reversed(causes), *reversed(run.error)]), None)


def _is_settled(logs: Diagnosis, found: Found) -> bool:
    """Whether a live run, by its record, has got over the blocker since."""
    failed_at, batch_began = logs.failed_at or 0, found.run.batch_began
    went_well = [rollout.created_at for rollout in found.rollouts if not rollout.error_summary]
    moved = _newest((found.run.attempt_began, *went_well))
    smaller_batch = logs.blocker and logs.blocker.kind == "cuda_oom" and batch_began is not None
    if smaller_batch and failed_at <= (batch_began or 0):
        return True
    return logs.failed_at is not None and failed_at + CLOCK_SLACK < (moved or 0)


def diverged(found: Found) -> tuple[str, ...]:
    """What of the newest figures is NaN or infinite."""
    figures = {metric.name: metric.value for metric in shown_metrics(found.metrics)}
    if found.rollouts and found.rollouts[-1].mean_reward is not None:
        figures["mean reward"] = found.rollouts[-1].mean_reward
    return tuple(name for name, value in figures.items() if not math.isfinite(value))


def asks_modal(run: Run, app: App, now: EpochSeconds) -> bool:
    """Whether what Modal itself knows of the app can change the answer."""
    if run.status not in (None, "running"):
        return run.status == "failed" and not run.error  # how it died stands nowhere else
    silent = (elapsed(run.last_sign, now) or 0) > STUCK_AFTER
    quiet = silent or _outlasts(elapsed(run.phase_began, now), _phase_usual(run))
    return app.live is False or run.waits or (quiet and run.kind != "gateway")


def _pace(found: Found) -> Usual | None:
    """From the times of the rollouts; from measured steps where there are fewer than two gaps."""
    timed = [(r.rollout_id, r.created_at) for r in found.rollouts if r.created_at is not None]
    restarted = found.run.attempt_began or 0
    gaps = [
        (after_at - at) / (after_id - rollout_id)
        for (rollout_id, at), (after_id, after_at) in itertools.pairwise(timed)
        if after_at > at and not at < restarted <= after_at
    ][-PACED:]
    if len(gaps) < 2:  # noqa: PLR2004 - one gap may be a restart's pause
        gaps = [step.total for step in found.run.steps[:PACED] if step.total]
    return _usual(gaps)


def _usual(times: Sequence[Seconds]) -> Usual | None:
    return Usual(statistics.median(times), max(times), len(times)) if times else None


def _eta(found: Found, pace: Usual | None, now: EpochSeconds) -> Seconds | None:
    step = found.run.step
    if step is None or step.total is None or pace is None or step.current > step.total:
        return None
    completed = max(0, step.current - 1)
    times = {rollout.rollout_id: rollout.created_at for rollout in found.rollouts}
    # A pause before this attempt brings the end no nearer.
    since = _newest((times.get(completed - 1), found.run.attempt_began if completed else None))
    left = (step.total - completed) * pace.median - (elapsed(since, now) or 0.0)
    return max(left, pace.median)


def _phase_usual(run: Run) -> Usual | None:
    """What the current phase took in the steps before."""
    names = (run.phase, f"{run.phase}_end")  # an evaluation after a step has that name in timings
    return _usual([took for step in run.steps for phase, took in step.phases if phase in names])


def _outlasts(lasted: Seconds | None, usual: Usual | None) -> bool:
    """Whether a phase has lasted far longer than it ever took."""
    return usual is not None and (lasted or 0) > STUCK_PHASES * usual.longest


# ---- The verdict: how far, doing what, stuck on what, in a word and a line.


def _rule(found: Found, judged: Judgement) -> str:
    """The first rule that holds; where its name isn't the verdict's word, WORDS has that."""
    run, live, idle = found.run, found.live, judged.idle
    silent = idle is None or idle > STUCK_AFTER
    late = max(SLOW_PACES * judged.pace.median, STUCK_AFTER) if judged.pace else math.inf
    no_step = (judged.since_step or 0) > late
    queued = _is_queued(found)
    failed_at = run.attempt_failed_at if run.status == "failed" and live else None
    running = run.status == "running"
    # A record may be silent for long while the log is not.
    quiet = not judged.log_is_alive or judged.blocker is not None
    rules = (
        ("retrying", failed_at is not None and judged.now - failed_at <= RETRIED_WITHIN),
        (run.status or "", run.status in ENDED_STATUSES),
        ("finished", running and found.has_result is True),  # a late notice can turn it back
        ("orphaned", queued and (judged.waited or 0) > ORPHANED_AFTER),
        ("queued", queued),
        ("completed", live is False and found.has_result is True),
        ("died", live is False and running and found.has_result is False),
        ("over", live is False and running),
        ("unknown", live is False),
        ("waiting", run.waits),
        ("serving", run.kind == "gateway" and run.phase == "serving" and live is True),
        ("unknown", run.status is None or (live is None and silent and quiet)),
        ("waiting", quiet and (silent or no_step) and _lacks_container(found)),
        ("stuck", quiet and silent and idle is not None and _is_stuck(judged)),
        ("slow", quiet and silent and idle is not None),
        ("stalled", quiet and no_step),
        ("logging", silent and idle is not None),
        ("running", True),
    )
    return next(rule for rule, holds in rules if holds)


def _is_queued(found: Found) -> bool:
    """Whether the run has no app yet, and nothing tells that it has begun all the same."""
    run = found.run
    begun = run.begun or bool(found.rollouts)
    without_app = run.app_id is None and not run.app_id_malformed
    return without_app and run.status is not None and not run.ended and not begun


def _lacks_container(found: Found) -> bool:
    """Whether no container runs, though an input waits, or may wait, for one."""
    hardware = found.hardware
    if hardware is None or hardware.waiting_inputs == 0:
        return False
    running = hardware.function_containers
    return (hardware.containers if running is None else running) == 0


def idle_gpus(found: Found) -> Hardware | None:
    """What tells of GPUs that ought to work and don't: it bears a silence out."""
    run, hardware = found.run, found.hardware or Hardware()
    idle = (hardware.gpu_idle_seconds or 0) >= STUCK_AFTER and hardware.function_containers
    # Busy ones prove nothing.
    return hardware if idle and run.begun and run.phase in GPU_PHASES else None


def _is_stuck(judged: Judgement) -> bool:
    """Whether a silent run is stuck: a blocker, or a phase that has outlasted all before it."""
    logs, lasted, usual = judged.logs, judged.phase_lasted, judged.phase_usual
    if judged.blocker:
        return True
    outlasted = _outlasts(judged.idle if lasted is None else lasted, usual)
    active = logs.activity_at
    if active is None and logs.since and judged.now - logs.since > STUCK_AFTER:
        active = logs.since  # nothing was done at least since then; a shorter tail tells nothing
    if active is None:
        return outlasted
    return (outlasted or usual is None) and judged.now - active > STUCK_AFTER


# ======================================================================================
# Secrets: training logs print their environment, and a screen or a chat is no place for it.
# ======================================================================================

# Characters of one text that are shown: far above any real id, URL or phase name.
FIELD_LIMIT = 1_000
_COLOUR = r"(?:\x1b\[[0-9;]*m)*"
_QUOTE = r"\\{0,3}[\"']"  # JSON within JSON escapes it
# A credential must not follow a word's character; the end of an escape or of a colour is none.
_START = r"(?:(?<![\w-])|(?<=\dm|\[m|\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
# A JWT has a header and a payload, whatever signs them; or a header, any part, and a long one.
_TOKEN = re.compile(
    rf"(?P<before>{_START})(?P<token>"
    r"eyJ[\w-]{8,}+\.(?:eyJ[\w-]*+\.[\w-]*+|[\w-]*+\.[\w-]{16,}+)(?:\.[\w-]++)*+"
    r"|(?:ak|as|wk|ws)-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{30,}|sk-[\w-]{20,}"
    r"|AIza[\w-]{30,}|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abp]-[\w-]{16,})",
    re.ASCII,
)
_HEADER = re.compile(
    rf"(?P<before>{_START}(?i:bearer|basic|authorization: token)\s+{_COLOUR})"
    r"(?=[\w.~+/=-]*\d)(?P<token>[\w.~+/=-]{16,})",
    re.ASCII,
)
_IN_URL = re.compile(r"(?P<before>://[\w.%+~-]*:)(?P<token>[^\s/@:]{8,}+)(?=@)")
# With which whoever has the URL may read what it names, until it expires.
_SIGNED = re.compile(
    r"(?P<before>[?&](?i:[\w-]{0,20}signature|[\w-]{0,20}token|sig)=)(?P<token>[^\s\"'\\\x1b&<>)]{16,}+)"
)
# How the names end to which credentials are assigned.
_NAME = (
    r"(?i:(?:(?:api|wandb|private)[_-]?key|secret(?:[_-](?:access[_-])?key)?|passw(?:or)?d"
    r"|(?:access|api|auth|session|status)[_-]token"
    r"|(?:hf|hub|hugging_?face|wandb|git(?:hub|lab)|gh|openai|anthropic|slack|pypi)[_-]token))"
)
# How they are assigned: `key=`, `"key": `, `['key'] = b`, `key: str = `; in Megatron's list of
# its arguments; in a tuple or a list of words; behind a flag, where a path or a word is no value.
_EQUALS = rf"(?:{_QUOTE})?\]?{_COLOUR}\s*(?::\s*[A-Za-z]+\s*(?==))?[=:]\s*{_COLOUR}(?:b(?=[\"']))?"
_DOTS = r"\s\.{3,}\s"
_COMMA = rf"{_QUOTE},\s*(?={_QUOTE})"
_FLAG = rf"(?:(?<![\w-])--[\w-]{{0,30}}?{_NAME}|\bwandb login)\s+(?=[\w.+-]*\d)(?!-|\S*/)"
_ASSIGNED = re.compile(
    rf"(?P<before>(?:{_NAME}(?:{_EQUALS}|{_DOTS}|{_COMMA})|{_FLAG})(?P<quote>{_QUOTE})?)"
    r"(?P<token>(?(quote)[^\s\"'\\\x1b]{16,}+(?=(?P=quote))|[^\s\"'\\\x1b,;&)}\]]{16,}+))"
)
_CODE_OR_PATH = re.compile(
    r"[(\[]|os\.environ|^-?\d+\.\d+$|^\$|^(?:~|\.{1,2})?/|^\w+://|/[^/]*\.[A-Za-z]\w{0,4}$"
)
# Words without which a line holds no credential: looking for them is much faster than for those.
_TRACES = _listed("""ak-; as-; wk-; ws-; sk-; hf_; ghp_; gho_; ghr_; ghs_; ghu_; github_pat_;
    glpat-; xox; bearer; key; secret; passw; _token; -token; login; ://; eyj; aiza; basic;
    authorization""")


def mask_secrets(text: str) -> str:
    """Show each credential in the text as its first four characters and `…`."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if _has(line.casefold(), _TRACES):
            for pattern in (_HEADER, _TOKEN, _IN_URL, _SIGNED, _ASSIGNED):
                lines[at] = pattern.sub(_mask, lines[at])
    return "".join(lines)


def _mask(match: re.Match[str]) -> str:
    if match.re is _ASSIGNED and _CODE_OR_PATH.search(match["token"]):
        return match[0]
    return f"{match['before']}{match['token'][:4]}…"


def masked(value: T, mask: Callable[[str], str]) -> T:
    """The same value, each text in it masked and then cut; log output, as bytes, never is cut."""
    if isinstance(value, bytes):
        lines = mask(value.decode(errors="surrogateescape"))
        return cast("T", lines.encode(errors="surrogateescape"))
    if isinstance(value, str):
        text = mask(value)
        return cast("T", text if len(text) <= FIELD_LIMIT else f"{text[:FIELD_LIMIT]}…")
    if isinstance(value, tuple):
        return cast("T", tuple(masked(item, mask) for item in value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{name: masked(held, mask) for name, held in vars(value).items()})


# ======================================================================================
# Showing: rich renderables from the judged facts. No decisions here, and nothing prints
# but `show`.
# ======================================================================================

GOOD, WARN, BAD, HEADING = "green", "bold yellow", "bold red", "bold cyan"
# Of a status or the verdict's word; of others a status is plain, a verdict a warning.
STYLES = {
    **dict.fromkeys(("running", "completed", "serving"), GOOD),
    **dict.fromkeys(("stopped", "cancelled"), WARN),
    **dict.fromkeys(("failed", "died", "stuck"), BAD),
}
LABEL_WIDTH = 9
# Columns of a pipe: wider than any line, so that nothing is wrapped or cut there.
PIPE_WIDTH = 1_000_000
# Columns below which a window is left to wrap by itself: there is no room for labels and values.
NARROW = 50
LAST_ROLLOUTS = 5
SPARK, SPARKS = "▁▂▃▄▅▆▇█", 60
# What these phases do where a batch of examples takes the place of a rollout.
SFT_PHASES = {"generate_rollouts": "preparing a batch", "weight_sync": "training"}
# Characters of a log line that the verdict quotes: the whole line stands in the logs above.
BLOCKER_SHOWN, ACTIVITY_SHOWN = 300, 200


def duration_text(seconds: Seconds) -> str:
    """A measured time: `12s`, `3m 50s`, `2h 41m`, `3d 4h`."""
    if 0 < seconds < 0.5:  # noqa: PLR2004 - what would round to none
        return "<1s"
    whole = round(seconds)
    return f"{whole // 60}m {whole % 60}s" if 60 <= whole < 3600 else age_text(whole)  # noqa: PLR2004


def age_text(seconds: Seconds) -> str:
    """How long ago: `34s`, `22m`, `2h 24m`, `3d 4h`; what is yet to come counts as now."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m" if minutes else f"{whole}s"


def moment_text(moment: EpochSeconds, now: EpochSeconds) -> str:
    """`2026-11-29 12:01:03 UTC (2h 24m ago)`."""
    when = "ahead of this clock" if moment > now + CLOCK_SLACK else f"{age_text(now - moment)} ago"
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S UTC} ({when})"


def step_text(step: Step | None) -> str:
    """`12/50`, `7` where the total is unknown."""
    if step is None:
        return "unknown"
    shown = f"{step.current}/{step.total}" if step.total else str(step.current)
    return shown if step.unit == "step" else f"{shown} ({step.unit})"


def stopped_text(app: App, now: EpochSeconds) -> str:
    """`stopped 14m ago`, `stopping`, `disabled`."""
    ago = f" {age_text(now - app.stopped_at)} ago" if app.stopped_at else ""
    return f"{app.state or 'stopped'}{ago}"


def app_text(found: Found, judged: Judgement) -> tuple[str, str]:
    """The app's id and whether it is live, or why there is none."""
    run, app, now = found.run, found.app, judged.now
    if app and app.live is None:
        return f"{run.app_id} · unknown ({app.unknown})", WARN
    if app and app.live:
        return f"{run.app_id} · live{f' ({app.state})' if app.state else ''}", GOOD
    if app:
        by = f" by {app.stopped_by}" if app.stopped_by else ""
        return f"{run.app_id} · not live ({stopped_text(app, now)}{by})", ""
    if run.app_id_malformed:
        return "unknown (malformed app id)", ""
    why = "none recorded" if run.begun else "none yet: the run is still queuing or in early setup"
    if run.ended:
        why = "none: the run ended before it had one"
    if judged.rule == "orphaned":
        why = f"none: it was created {age_text(judged.waited or 0)} ago and never got one"
    return f"{why}, so there are no logs", ""


def metrics_text(metrics: Sequence[Metric]) -> str:
    """`train/loss 0.0021 · train/grad_norm 0.41 (step 23) · eval/gsm8k 0.62 (step 20)`."""
    steps = itertools.groupby(metrics, key=lambda metric: metric.step)
    by_step = ((" · ".join(f"{m.name} {m.value:.4g}" for m in same), step) for step, same in steps)
    return " · ".join(f"{figures} (step {step})" for figures, step in by_step)


def timings_text(timings: Timings) -> str:
    """`step 11: generate_rollouts 3m 50s · … · total 4m 37s`."""
    spans = (*timings.phases, ("total", timings.total))
    parts = (f"{phase} {duration_text(took)}" for phase, took in spans)
    return f"step {timings.step}: {' · '.join(parts)}"


def phase_text(run: Run, judged: Judgement) -> str:
    """`generate_rollouts for 22m (usually 3m 50s, longest 4m 31s over 11 steps)`."""
    phase, usual = phase_name(run), judged.phase_usual
    if run.submitted:
        return f"{run.phase} is over; the training is submitted (waiting for its GPUs)"
    if run.waiting_for_gpu:
        return f"{phase} (waiting for a GPU)"
    if judged.phase_lasted is None:
        return phase
    shown = f"{phase} for {age_text(judged.phase_lasted)}"
    if usual is None:
        return shown
    median, longest = duration_text(usual.median), duration_text(usual.longest)
    return f"{shown} (usually {median}, longest {longest} over {count_text(usual.count, 'step')})"


def phase_name(run: Run) -> str:
    """The phase as it is called for this kind of run."""
    phase = run.phase or "unknown"
    return SFT_PHASES.get(phase, phase) if run.kind == "sft" else phase


def bottom_text(found: Found, judged: Judgement) -> str:
    """One line under followed logs."""
    eta = eta_text(judged.eta, judged.now)
    phase = phase_text(found.run, replace(judged, phase_usual=None))
    left = f" · eta {eta}" if eta else ""
    sign = f" · last sign {age_text(judged.idle)} ago" if judged.idle is not None else ""
    return f"step {step_text(found.run.step)} · {phase}{left}{sign}"


def count_text(number: int, noun: str) -> str:
    """`1 step`, `11 steps`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def eta_text(eta: Seconds | None, now: EpochSeconds) -> str | None:
    """`~2h 41m (about 17:05 UTC)`, with the day where it is another one."""
    if eta is None or now + eta >= YEAR_10000:
        return None
    at = datetime.fromtimestamp(now + eta, UTC)
    other_day = at.date() != datetime.fromtimestamp(now, UTC).date()
    return f"~{duration_text(eta)} (about {at:{'%Y-%m-%d ' if other_day else ''}%H:%M} UTC)"


def styled(text: str | None, style: str = "") -> RenderableType:
    """Text that rich leaves as it is; none where it is unknown."""
    from rich.text import Text

    return Text(text or "", style)


def indented(block: RenderableType) -> RenderableType:
    """The two columns by which every line under a heading is set in."""
    from rich.padding import Padding

    return Padding(block, (0, 0, 0, 2), expand=False)


def grid(*titles: str) -> Table:
    """A table without lines."""
    from rich.table import Table

    table = Table.grid(*titles, padding=(0, 2, 0, 0))
    table.show_header, table.header_style = bool(titles), "dim"
    return table


def field(label: str, value: RenderableType, style: str = "dim") -> RenderableType:
    """One labelled line, its further lines under the value."""
    line = grid()  # of its own: in one of all lines, each is filled up to the longest, in colour
    line.add_column(width=LABEL_WIDTH, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(styled(label, style), styled(value) if isinstance(value, str) else value)
    return indented(line)


def block(title: str, values: Mapping[str, RenderableType | None]) -> list[RenderableType]:
    """A heading and its labelled lines; one whose value is unknown is left out."""
    lines = (field(label, value) for label, value in values.items() if value)
    return [styled(title, HEADING), *lines]


def step_bar(step: Step, total: int, eta: Seconds | None) -> RenderableType:
    """The step, how much of the training is done, and how long the rest may take."""
    from rich.progress_bar import ProgressBar

    done = min(max(step.current - 1, 0), total)
    bar = ProgressBar(total=total, completed=done, width=24)
    left = f", ~{duration_text(eta)} left" if eta else ""
    share = f"{100 * done // total}% done{left}"
    line = grid()
    line.add_column(overflow="fold")
    line.add_row(styled(step_text(step), "bold"), bar, styled(share, "dim"))
    return line


def progress_block(found: Found, judged: Judgement, *, bar: bool) -> list[RenderableType]:
    """The Progress block; a line whose value is unknown is left out."""
    run, now, pace = found.run, judged.now, judged.pace
    step: RenderableType | None = step_text(run.step)
    if run.kind == "gateway":
        step = None
    elif run.asynchronous:
        step = f"{step} (asynchronous: it may be one ahead of the training)"
    elif bar and run.step and run.step.total:
        step = step_bar(run.step, run.step.total, judged.eta)
    over = run.status != "running"
    row = "this is its row in the runs summary, which may lag"
    stale = f"the record could not be read ({found.stale}): {row}" if found.stale else None
    resumed = f" (resumed from {run.resumed_from})" if run.resumed_from else ""
    again = resumed or (run.attempt or 0) > 1  # not a first attempt from scratch
    paced = f"{duration_text(pace.median)} a step" if pace else ""
    lines: dict[str, RenderableType | None] = {
        "run": run.run_id,
        "source": styled(stale, WARN),
        "framework": run.framework,
        "status": styled(run.status or "unknown", STYLES.get(run.status or "", "")),
        "phase": styled(phase_text(run, judged), WARN if run.waiting_for_gpu else ""),
        "step": step,
        "attempt": f"{run.attempt or 'unknown'}{resumed}" if again else None,
        "batch": run.batch_size,
        "app": styled(*app_text(found, judged)),
        "url": run.url,
        "created": moment_text(run.created_at, now) if run.created_at else None,
        "started": moment_text(judged.started_at, now) if judged.started_at else None,
        "updated": moment_text(judged.updated_at, now) if judged.updated_at else None,
        "ended": moment_text(run.ended_at, now) if run.ended_at and over else None,
        "reason": run.reason if over else None,
        "error": styled("\n│ ".join(run.error) if over else None, BAD),
        "timings": timings_text(run.timings) if run.timings else None,
        "pace": f"{paced} (median of the last {pace.count})" if pace else None,
        "eta": eta_text(judged.eta, now),
    }
    hint = hint_text(found.app, judged)
    return [*block("Progress", lines), *([indented(styled(*hint))] if hint else [])]


def hint_text(app: App | None, judged: Judgement) -> tuple[str, str] | None:
    """The line that says that the run is not simply running, if it isn't, and its style."""
    if judged.possibly_stuck:
        quiet = f"the run has recorded nothing for {age_text(judged.idle or 0)}"
        return f"⚠ POSSIBLY STUCK: the app is live but {quiet}", WARN
    how = stopped_text(app, judged.now) if app else ""
    over = f"status says running, but the app {how if how.startswith('stopped') else f'is {how}'}"
    finished = "✓ finished: a train result is recorded; the status has not caught up"
    hints = {
        "died": (f"✗ APP DIED: {over}; the last log lines hold the cause", BAD),
        "over": (f"⚠ APP OVER: {over}; whether it left a train result is unknown", WARN),
        "finished": (finished, GOOD),
    }
    return hints.get(judged.rule)


def rollouts_block(found: Found, width: int) -> list[RenderableType]:
    """The Rollouts block: how many, the latest, the course of the reward, the last five."""
    rollouts, lack, metrics = found.rollouts, found.incomplete, shown_metrics(found.metrics)
    finite = all(math.isfinite(metric.value) for metric in metrics)
    lines: dict[str, RenderableType | None] = {
        "recorded": str(len(rollouts)) if found.counted else "unknown",
        "latest": latest_text(found, rollouts[-1].rollout_id) if rollouts else None,
        "note": styled(f"figures are incomplete: {lack}" if lack else None, WARN),
        "reward": reward_text(rollouts, max(1, min(SPARKS, width - LABEL_WIDTH - 5))),
        "metrics": styled(metrics_text(metrics), "" if finite else BAD),
    }
    last = rollouts[-LAST_ROLLOUTS:]
    rewarded = found.run.kind != "sft"
    table = grid()
    table.show_header = True
    columns = {"rollout_id": 10, "samples": 7, "mean reward": 11, "time": 8}
    if not rewarded:
        del columns["mean reward"]
    for title, room in columns.items():
        table.add_column(title, justify="right", min_width=room)
    if any(rollout.error_summary for rollout in last):
        table.add_column("errors", overflow="fold")
    for rollout in last:
        mean = [number_text(rollout.mean_reward, "{:z.4f}")] if rewarded else []
        took = "–" if rollout.seconds is None else duration_text(rollout.seconds)
        errors = [styled(rollout.error_summary, BAD)] if rollout.error_summary else []
        samples = number_text(rollout.samples, "{}")
        table.add_row(str(rollout.rollout_id), samples, *mean, took, *errors)
    return [*block("Rollouts", lines), *([indented(table)] if last else [])]


def reward_text(rollouts: Sequence[Rollout], columns: int) -> str | None:
    """A sparkline of the mean rewards, with first → last and the best; None for fewer than two."""
    known = {r.rollout_id: r.mean_reward for r in rollouts if r.mean_reward is not None}
    rewards = list(known.values())
    finite = {rollout_id: mean for rollout_id, mean in known.items() if math.isfinite(mean)}
    if len(rewards) < 2 or not finite:  # noqa: PLR2004 - a single one has no course
        return None
    buckets = min(columns, len(rewards))
    edges = [len(rewards) * bucket // buckets for bucket in range(buckets + 1)]
    # By sum, which makes of what has no mean NaN or infinity, where fmean raises.
    means = [sum(rewards[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low = min(filter(math.isfinite, means), default=0.0)
    high = max(filter(math.isfinite, means), default=0.0)
    # Where all are the same, each is the lowest; the widest span has to be finite, too.
    span = min(high - low, sys.float_info.max) or 1.0
    shares = (min((mean - low) / span, 1.0) if math.isfinite(mean) else None for mean in means)
    line = "".join("×" if s is None else SPARK[round(s * (len(SPARK) - 1))] for s in shares)
    best = max(finite, key=lambda rollout_id: finite[rollout_id])
    first, last, most = (number_text(n, "{:z.4f}") for n in (rewards[0], rewards[-1], finite[best]))
    return f"{line}  {first} → {last}, best {most} (rollout_id {best})"


def latest_text(found: Found, rollout_id: int) -> str:
    """`rollout_id 10 (step 11, the latest completed step)`, or where that step stands else."""
    run, step = found.run, rollout_id + 1
    current = run.step.current if run.step else None
    under_way = current == step and rollout_id != run.resume_point  # not what it goes on from
    completed = run.status == "completed" or found.has_result
    if run.asynchronous and current == step + 1:
        stands = "whose training may not be over"
    elif under_way and run.phase == "evaluate_rollouts":
        stands = "trained, and evaluated now"
    elif under_way and not completed:
        stands = "not completed" if run.ended else "not completed yet"
    elif completed or current is None or current >= step:
        stands = "the latest completed step"
    else:
        stands = "of an attempt before this one"
    return f"rollout_id {rollout_id} (step {step}, {stands})"


def number_text(number: float | None, form: str) -> str:
    """As it has room in a column: `–` where it is unknown."""
    shown = "–" if number is None else form.format(number)
    return shown if len(shown) <= 11 else f"{number:.4g}"  # noqa: PLR2004 - the column's width


def verdict_block(found: Found, judged: Judgement) -> list[RenderableType]:
    """The Verdict block: the answer, where the eye is."""
    style, blocker, now = STYLES.get(judged.word, WARN), judged.blocker, judged.now
    answer = verdict_text(found, judged)
    containers = containers_text(found.hardware) if found.live else ""
    errors = found.hardware.container_errors_last_hour if found.hardware else None
    failed = f"{count_text(errors, 'container error')} in the last hour" if errors else ""
    modal = (part for part in (containers, failed) if part and part not in answer)
    why: dict[str, RenderableType | None] = {
        "ended by": styled(ended_by_text(found) if judged.word != "completed" else None, BAD),
        "blocker": styled(blocker_text(blocker, now) if blocker else None, BAD),
        "next": judged.next_step,
        "progress": counter_text(judged),
        "modal": "; ".join(modal),
        "logs": activity_text(judged.logs, now),
    }
    heading, *lines = block("Verdict", why)
    return [heading, field(judged.word, styled(answer, style), style), *lines]


def verdict_text(found: Found, judged: Judgement) -> str:
    """How far the run is, what it does, and what gave the word."""
    run, now, pace, usual = found.run, judged.now, judged.pace, judged.phase_usual
    step = f"step {step_text(run.step)}"
    phase = phase_name(run) if run.phase else "phase unknown"
    usually = f" (usually {duration_text(usual.median)})" if usual else ""
    lasted = judged.phase_lasted
    doing = phase if lasted is None else f"{phase} for {age_text(lasted)}{usually}"
    where = doing if run.kind == "gateway" else f"{step}, {doing}"
    idle = "as long as is known" if judged.idle is None else age_text(judged.idle)
    touched = "no sign of life known" if judged.idle is None else f"touched {idle} ago"
    for_now = f" for {idle} now" if judged.idle is not None else ""
    left = f", about {duration_text(judged.eta)} left" if judged.eta else ""
    odd = diverged(found)
    left += f"; {' and '.join(odd)} {'is' if len(odd) == 1 else 'are'} not finite" if odd else ""
    state = {True: "live", False: "not live", None: "state unknown"}[found.live]
    idle_ones = idle_gpus(found)
    alone = "" if judged.blocker or idle_ones else ", and this rests on silence alone"
    gpus = idle_gpus_text(idle_ones) if idle_ones else ""
    no_step = f"no step for {age_text(judged.since_step or 0)}"
    paced = f", usually {duration_text(pace.median)}" if pace else ""
    failed = f"failed {age_text(now - (run.attempt_failed_at or now))} ago"
    again = "the app is live, so Modal may start it again"
    ended = f"; ended {age_text(now - run.ended_at)} ago" if run.ended_at else ""
    cause = cause_of_end(run)
    why = f": {cause}" if cause else ""
    waited = "" if judged.waited is None else f", {age_text(judged.waited)} after it was created"
    queued = f"no app yet{waited}"
    texts = {
        "retrying": f"{step}; attempt {run.attempt} {failed}; {again}{why}",
        "finished": f"{step}; a train result is recorded",
        "orphaned": f"{queued}; probably orphaned: start it again",
        "queued": queued,
        "died": f"{where}; the status says running, but the app is over",
        **dict.fromkeys(("over", "unknown"), f"{where}; no sign of life for {idle}, app {state}"),
        "waiting": waiting_text(found, phase, for_now),
        "serving": f"{doing}; the app is {state}",
        "stuck": f"{where}; the app is {state}{alone}{gpus}",
        "slow": f"{where}; no sign of life for {idle}{gpus}",
        "stalled": f"{where}; {touched}, but {no_step}{paced}",
        "logging": f"{where}; the record is silent for {idle}, the log is not{left}",
        "running": f"{where}; {touched}{left}",
    }
    return texts.get(judged.rule, f"{step}{ended}{why}")


def waiting_text(found: Found, phase: str, for_now: str) -> str:
    """For what the run waits, by its record and by what Modal knows."""
    submitted = "the training is submitted and waits for its GPUs"
    awaited = submitted if found.run.submitted else f"{phase} waits for a GPU"
    none_runs = found.hardware is not None and found.hardware.containers == 0
    parts = (
        f"{awaited}{for_now}" if found.run.waits else "",
        # Those that run are not the trainer's, where nothing else gives the word.
        containers_text(found.hardware) if none_runs or not found.run.waits else "",
    )
    return "; ".join(filter(None, parts))


def containers_text(hardware: Hardware | None) -> str:
    """`no container runs, 1 input waits for one`, `2 containers run`; empty where unknown."""
    if hardware is None or hardware.containers is None:
        return ""
    containers, inputs = hardware.containers, hardware.waiting_inputs
    run = f"{count_text(containers, 'container')} run" if containers else "no container run"
    waits = f", {count_text(inputs or 0, 'input')} wait{'s' if inputs == 1 else ''} for one"
    return f"{run}{'' if containers > 1 else 's'}{waits if inputs else ''}"


def idle_gpus_text(hardware: Hardware) -> str:
    """`; GPUs at 0 % for the last 22m (Modal, train, 2 containers)`."""
    span = age_text(hardware.gpu_idle_seconds or 0)
    containers = count_text(hardware.function_containers or 0, "container")
    least = "at least" if hardware.gpu_idle_whole_hour else "the last"
    return f"; GPUs at 0 % for {least} {span} (Modal, {hardware.function}, {containers})"


def ended_by_text(found: Found) -> str | None:
    """`timeout after 24h`, `kernel oom kill`, `terminated by maya`; None where Modal ended none."""
    hardware = found.hardware or Hardware()
    status, limit = hardware.call_status, hardware.call_limit
    if status == "timeout" and limit:
        return f"timeout after {f'{limit / 60:g}m' if limit % 3600 else f'{limit / 3600:g}h'}"
    if status == "terminated" and found.app and found.app.stopped_by:
        return f"terminated by {found.app.stopped_by}"
    # Of a failure the log tells: it is the run's own exception.
    return None if status in ("pending", "running", "success", "failure") else status


def counter_text(judged: Judgement) -> str | None:
    """`Rollout generation 401/512, 1.1/s, about 1m 40s left`."""
    under_way = judged.word in ("running", "slow", "stuck", "unknown")
    count = judged.logs.progress if under_way else None
    if count is None:
        return None
    in_bytes = count.total >= 1_000_000  # noqa: PLR2004 - then their share tells more
    share = f"{count.done / count.total:.0%}"
    shown = f"{count.what} {share if in_bytes else f'{count.done}/{count.total}'}"
    rate, left = count.per_second, count.left_seconds
    if rate is None or left is None or not judged.log_is_alive:
        return shown
    speed = f"{rate:.{1 if rate >= 1 else 2}f}/s, "
    if rate < 0.1:  # noqa: PLR2004 - which would round to next to nothing
        speed = f"{duration_text(1 / rate)} each, "
    return f"{shown}, {'' if in_bytes else speed}about {duration_text(left)} left"


def blocker_text(blocker: Blocker, now: EpochSeconds) -> str:
    """`auth: 401 Unauthorized … (25 times since 13:58:40, last 2m ago; led to RewardError)`."""
    line, most = blocker.line, BLOCKER_SHOWN
    if len(line) > most:
        line = f"{line[: most * 2 // 3]} … {line[-most // 3 :]}"
    ago = f"{age_text(now - blocker.at)} ago" if blocker.at else ""
    if blocker.at and blocker.above:
        ago = f"{clock_text(blocker.at)}, above the lines shown"
    since = f" since {clock_text(blocker.first_at)}" if blocker.first_at != blocker.at else ""
    repeats = f"{count_text(blocker.count, 'time')}{since}, last " if blocker.count > 1 else ""
    led_to = f"led to {blocker.led_to}" if blocker.led_to else ""
    times = "; ".join(part for part in (ago and repeats + ago, led_to) if part)
    return f"{blocker.kind}: {line} ({times})" if times else f"{blocker.kind}: {line}"


def clock_text(moment: EpochSeconds | None) -> str:
    """`13:58:40`, in UTC as the log has it."""
    return f"{datetime.fromtimestamp(moment or 0, UTC):%H:%M:%S}"


def activity_text(logs: Diagnosis, now: EpochSeconds) -> str | None:
    """The last line that means something and for how long it has been quiet since."""
    if logs.whole and logs.since is None:
        return "the app has logged nothing yet"
    whole = " (this is the whole log)" if logs.whole else ""
    if logs.noise and logs.since:
        return f"nothing but health checks since {clock_text(logs.since)[:5]}{whole}"
    if logs.activity is None:
        return None
    quiet = f"{age_text(now - logs.activity_at)} ago: " if logs.activity_at else ""
    return f"last activity {quiet}{logs.activity[:ACTIVITY_SHOWN]}{whole}"


def runs_block(
    rows: Sequence[tuple[Run, str | None]], more: int, now: EpochSeconds
) -> list[RenderableType]:
    """A line each: runs with the words of their verdicts, or without, candidates and their age."""
    listed = all(word for _, word in rows)
    title, age_title = ("Runs", "last sign") if listed else ("Candidates", "age")
    words = ["verdict"] if listed else []
    table = grid("run", *words, "status", "phase", "step", age_title, "app")
    for run, word in rows:
        moment = run.last_sign if listed else run.created_at
        age = f"{age_text(now - moment)}{' ago' if listed else ''}" if moment else "–"
        verdict = [styled(word, STYLES.get(word, WARN))] if word else []
        doing = (run.status or "unknown", run.phase or "unknown", step_text(run.step))
        rest = map(styled, (*doing, age, run.app_id or "–"))
        table.add_row(styled(run.run_id), *verdict, *rest)
    lines = [styled(title, HEADING), indented(table)]
    return [*lines, indented(styled(f"and {more} more", "dim"))] if more else lines


def new_console() -> Console:
    """A console that takes text as it is. NO_COLOR and FORCE_COLOR are rich's to obey."""
    from rich.console import Console

    screen = is_screen(sys.stdout) or None
    return Console(highlight=False, markup=False, emoji=False, force_terminal=screen)


def open_console(*, fold: bool = True) -> Console:
    """A console that wraps to a terminal's window, unless ids are to be copied, never a pipe."""
    console = new_console()
    if not fold or not is_screen(sys.stdout) or console.width < NARROW:
        console.width = PIPE_WIDTH
    return console


def show(console: Console, lines: Iterable[RenderableType]) -> None:
    """Print a block, without the spaces with which rich fills up a table's last column."""
    with console.capture() as capture:
        for line in lines:
            console.print(line)
    console.file.writelines(line.rstrip(" ") + "\n" for line in capture.get().splitlines())
    console.file.flush()  # here, since rich itself would exit with status 1 on a closed pipe


# ======================================================================================
# JSON: the same facts as one object, for programs.
# ======================================================================================


# The fields that are shown of these; of any other, all are.
FIELDS: dict[type, tuple[str, ...]] = {
    Run: (
        "framework", "status", "phase", "waiting_for_gpu", "submitted", "kind", "asynchronous",
        "batch_size", "step", "attempt", "resumed_from", "created_at", "ended_at", "reason",
        "model", "dataset", "wandb_ids"),
    App: ("live", "stopped_at", "stopped_by"),
    Metric: ("value", "step", "at"),
    Hardware: (
        "containers", "waiting_inputs", "container_errors_last_hour", "call_status",
        "gpu_idle_seconds", "unknown"),
    Blocker: ("kind", "line", "count", "at", "first_at", "led_to"),
}  # fmt: skip


def report(
    found: Found, judged: Judgement, tail: tuple[list[str], str] | None
) -> dict[str, object]:
    """The object of --json; `tail` is the log command and its output."""
    run, rollouts, hardware, timings = found.run, found.rollouts, found.hardware, found.run.timings
    app = found.app or App(live=None)
    called = hardware and (ended_by_text(found) or hardware.call_status)
    return {
        "run": {
            "id": run.run_id,
            **as_object(run),
            "phase_seconds": judged.phase_lasted,
            "started_at": iso(judged.started_at),
            "updated_at": iso(judged.updated_at),
            "error": "\n".join(run.error) or None,
        },
        "app": {"id": run.app_id, "url": run.url, "state": app.state or None, **as_object(app)},
        "idle_seconds": judged.idle,
        "possibly_stuck": judged.possibly_stuck,
        "pace_seconds": judged.pace.median if judged.pace else None,
        "eta_seconds": judged.eta,
        "timings": timings and {**as_object(timings), "phases": dict(timings.phases)},
        "rollouts": {
            "recorded": len(rollouts) if found.counted else None,
            "latest_rollout_id": rollouts[-1].rollout_id if rollouts else None,
            "complete": found.incomplete is None,
            "last": rollouts[-LAST_ROLLOUTS:],
        },
        "metrics": {metric.name: metric for metric in shown_metrics(found.metrics)},
        "logs": tail and logs_object(*tail, judged),
        "modal": hardware and {**as_object(hardware), "call_status": called},
        "verdict": {
            "word": judged.word,
            "text": verdict_text(found, judged),
            "blocker": judged.blocker,
            "next": judged.next_step,
            "restart": judged.restart,
        },
    }


def logs_object(command: list[str], output: str, judged: Judgement) -> dict[str, object]:
    """The log command, its lines, and what they tell."""
    logs = judged.logs
    last = {"line": logs.activity, "at": iso(logs.activity_at)}
    return {
        "command": command,
        "lines": [clean(line.expandtabs(4)) for line in output.splitlines()],
        "last_activity": None if logs.activity is None else last,
        "quiet_seconds": elapsed(logs.activity_at, judged.now),
        "progress": logs.progress and logs.progress._asdict(),
    }


def row_object(run: Run, word: str | None = None) -> dict[str, object]:
    """A run in a list of runs, with its verdict where that is known."""
    return {
        "id": run.run_id,
        "verdict": word,
        "status": run.status,
        "phase": run.phase,
        "step": run.step,
        "created_at": iso(run.created_at),
        "updated_at": iso(run.last_sign),
        "app_id": run.app_id,
    }


def as_object(value: DataclassInstance) -> dict[str, object]:
    """A dataclass as JSON has it: times in ISO 8601, and in words what is not finite."""
    shown: dict[str, object] = {}
    for name in FIELDS.get(type(value)) or [field.name for field in fields(value)]:
        member = getattr(value, name)
        if name == "at" or name.endswith("_at"):
            member = iso(member)
        elif isinstance(member, float) and not math.isfinite(member):
            member = str(member)
        shown[name] = member
    return shown


def iso(moment: EpochSeconds | None) -> str | None:
    """`2026-11-29T14:02:55Z`."""
    return None if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


# ======================================================================================
# Logs: the `modal app logs` subprocess. It runs while the blocks are made, its output
# passes through as it comes, and it never outlives this process.
# ======================================================================================

# Seconds for which the beginning of a followed line is held back for the rest of it, so that a
# credential is never cut in two: too short to be noticed, and long enough for a pipe.
LINE_PATIENCE = 0.2
# Seconds after which who reads the logs may look up, so that a quiet log holds nothing up.
TICK = 1.0
# What the child runs. It imports modal's CLI while this process still looks for the run, waits for
# the command on its standard input, and runs it as `python -m modal` does. A thread ends it when
# that input closes, so that it can't outlive this process however that one ends, SIGKILL included;
# it reads without a buffer, whose lock would be in the way of the interpreter's own end.
CHILD = """
import contextlib, json, os, queue, runpy, sys, threading
asked = queue.SimpleQueue()
def listen():
    for line in open(0, "rb", buffering=0):
        asked.put(json.loads(line))
    os._exit(1)
threading.Thread(target=listen, daemon=True).start()
with contextlib.suppress(ImportError):
    import modal.cli.entry_point
sys.argv = ["modal", *asked.get()]
try:
    runpy.run_module("modal", run_name="__main__", alter_sys=True)
except SystemExit as ended:  # and no later: an interpreter's own way out takes a while
    worded = isinstance(ended.code, str)
    print(ended.code if worded else "", end="", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(1 if worded else ended.code or 0)
"""


def error_line(stderr: bytes) -> str:
    """What the CLI's stderr says went wrong: an `Error: …` line, or before modal 1.6 a box."""
    lines = [clean(line).strip() for line in stderr.decode(errors="replace").splitlines()]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    boxed = " ".join(line.strip("│ ") for line in lines if line.startswith("│"))
    last = next((line for line in reversed(lines) if line), "it said nothing")
    return errors[-1] if errors else boxed or last


class Command:
    """An interpreter on its way to a command of modal; `close` it on every way out."""

    def __init__(self, *named: str) -> None:
        """Start it: importing takes it longer than finding the run takes."""
        # Colour codes would stand before the times.
        kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
        encoding = kept.get("PYTHONIOENCODING", "").partition(":")[0]
        self._name = " ".join(("modal", *named))
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        # Its own session: Ctrl-C reaches this process alone, which then ends the child.
        self._child = subprocess.Popen(
            # -P: a `modal` folder here is not the package. The last words are for `ps` alone.
            [sys.executable, "-P", "-c", CHILD, "modal", *named],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**kept, "TZ": "UTC", "PYTHONIOENCODING": f"{encoding}:replace"},
            start_new_session=True,
        )

    def ask(self, words: Sequence[str]) -> None:
        """Tell it what to run."""
        stdin = cast("IO[bytes]", self._child.stdin)
        with contextlib.suppress(BrokenPipeError):  # then its stderr says why
            stdin.write(json.dumps(words).encode() + b"\n")
            stdin.flush()

    def lines(self, patience: Seconds | None) -> Iterator[bytes]:
        """The output as it comes, in whole lines, until it ends.

        Where `patience` is None, it may take for ever: then what an unfinished line has so far
        comes after LINE_PATIENCE, and of a quiet log nothing, every TICK seconds. Raises
        ProgressError if modal failed, or took longer than `patience`.
        """
        pipe = cast("IO[bytes]", self._child.stdout).fileno()
        deadline = math.inf if patience is None else time.monotonic() + patience
        begun = b""  # of a line that is unfinished
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                yield begun
                raise ProgressError(f"{self._name} did not end within {patience:g} s")
            if select.select([pipe], [], [], min(LINE_PATIENCE if begun else TICK, left))[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    break
                whole, newline, begun = (begun + chunk).rpartition(b"\n")
                if newline:
                    yield whole + newline
            elif patience is None:
                yield begun
                begun = b""
        if begun:
            yield begun
        status = self._child.wait()
        if status < 0:
            raise ProgressError(f"{self._name} was killed by signal {-status}")
        if status:
            self._stderr.seek(0)
            raise ProgressError(f"{self._name} failed: {error_line(self._stderr.read())}")

    def close(self) -> None:
        """End the child, however far it is."""
        with self._stderr, contextlib.suppress(BrokenPipeError), self._child:
            self._child.kill()


# ======================================================================================
# Hardware: what Modal itself knows of an app: its containers, its calls, its GPUs. Evidence
# that may be missing: whatever fails or is not told, the rest stands.
# ======================================================================================

# Seconds that it may take, and so hold the blocks back.
HARDWARE_PATIENCE = 3.0
# How series are named that tell in how much of a minute GPUs ran anything, and how it is summed up.
GPU_SERIES = re.compile(
    r"(?!.*(?:mem|vram|hbm|fb|power|watt|temp|energy|clock|bandwidth|nvlink|pcie|enc|dec))"
    r"(?P<metric>.*util.*)_(?P<summed_up>[a-z]+)"
)
# What the maximum of idle GPUs reads at most, by unit; an average is 1.5 % where 1 of 64 is busy.
IDLE_MAXIMUM = {"%": 1.0, "percent": 1.0, "ratio": 0.01}
# How old the newest sample may be.
SAMPLE_AGE = timedelta(minutes=5)
MINUTE = timedelta(minutes=1)
# The percentile that stands for all of a stretch, where there are no samples by the minute.
NEARLY_ALL = 99


def gpu_idle(series: Iterable[MetricSeries], until: datetime) -> tuple[Seconds, bool] | None:
    """How long GPUs have been idle, and whether for all of the window; None without evidence."""
    matches = ((GPU_SERIES.fullmatch(each.name.casefold()), each) for each in series)
    named = [(name, each) for name, each in matches if name]
    found = {name["summed_up"]: each for name, each in named}
    # Others, such as a minimum or a median, are 0 beside a busy GPU.
    summed_up = next((word for word in ("max", "avg", "mean", "sum") if word in found), "")
    if not summed_up or len({name["metric"] for name, _ in named}) > 1:
        return None
    unit, points = found[summed_up].unit.casefold(), found[summed_up].points
    most = IDLE_MAXIMUM.get(unit, 0.0) if summed_up == "max" else 0.0
    seen = {point.time: point.value for point in points if point.value is not None}
    newest = at = max(seen, default=until - 2 * SAMPLE_AGE)
    while 0 <= seen.get(at, -1) <= most:
        at -= MINUTE
    if until - newest > SAMPLE_AGE:
        return None
    return (newest - at).total_seconds(), at < min(point.time for point in points)


async def read_hardware(run: Run, app: App, env: str | None) -> Hardware:
    """What Modal itself knows of the run's app, as far as it tells that in time. Never fails."""
    try:
        return await _read_hardware(run, app, env)
    except Exception as fault:  # noqa: BLE001 - another SDK may name its figures otherwise
        return Hardware(unknown=f"{type(fault).__name__}: {_words(fault)}")


async def _read_hardware(run: Run, app: App, env: str | None) -> Hardware:
    import modal

    until = asyncio.get_running_loop().time() + HARDWARE_PATIENCE
    unknown: list[str] = []

    async def or_none(answer: Awaitable[T]) -> T | None:
        try:
            async with asyncio.timeout_at(until):
                return await answer
        except TimeoutError:
            unknown.append(f"no answer within {HARDWARE_PATIENCE:g} s")
        except Exception as fault:  # noqa: BLE001 - however it fails, it is no evidence
            unknown.append(_words(fault))
        return None

    if app.live is None or run.app_id is None:
        return Hardware(unknown=app.unknown)
    if not hasattr(modal.Function, "from_id"):  # before modal 1.6.0
        running = await or_none(_count_containers(until, env, run.app_id)) if app.live else None
        unknown.append(f"modal {clean(modal.__version__)} tells of containers alone")
        return Hardware(running, unknown=unknown[0])
    ids = app.functions or await or_none(_function_ids(until, env, run.app_id)) or ()
    asked = await or_none(asyncio.gather(*(_look_up(*each) for each in ids)))
    if not asked:
        return Hardware(unknown=next(iter(unknown), "the app has no functions yet"))
    functions = sorted(asked, key=lambda each: (bool(each[2].gpus), "train" in each[0]))
    name, training, info = functions[-1]
    counts, errors, idle = await asyncio.gather(
        or_none(asyncio.gather(*(each.get_current_stats.aio() for _, each, _ in functions))),
        or_none(asyncio.gather(*(each.stats.aio() for _, each, _ in functions))),
        or_none(_ask_gpus(training, run.last_sign)),
    )
    words = ("function", "calls", training.object_id, "--tail", "1")
    calls = None if app.live or not info.gpus else await or_none(_ask_cli(until, env, *words))
    return Hardware(
        containers=sum(each.num_total_runners for each in counts) if counts else None,
        waiting_inputs=sum(each.backlog for each in counts) if counts else None,
        container_errors_last_hour=sum(e.container_error_count for e in errors) if errors else None,
        function=name,
        function_containers=counts[-1].num_total_runners if counts else None,
        call_status=next((_text(call, "status") for call in _elements(calls)), None),
        call_limit=float(info.timeout),
        gpu_idle_seconds=idle[0] if idle else None,
        gpu_idle_whole_hour=bool(idle and idle[1]),
        unknown=next(iter(unknown), None),
    )


async def _ask_cli(until: float, env: str | None, *words: str) -> object:
    """What this interpreter's own `modal` tells as JSON. Raises ProgressError where it fails."""
    patience = round(until - asyncio.get_running_loop().time(), 1)

    def output() -> bytes:
        with contextlib.closing(Command(*words)) as command:
            command.ask([*words, "--json", *(["-e", env] if env else [])])
            return b"".join(command.lines(patience))

    # In a thread, since waiting for its output would hold up all else that is read.
    return parse_json(await asyncio.to_thread(output))


async def _count_containers(until: float, env: str | None, app_id: str) -> int:
    listed = _elements(await _ask_cli(until, env, "container", "list", "--app-id", app_id))
    return sum(_text(each, "start_time") != "Pending" for each in listed)


async def _function_ids(until: float, env: str | None, app_id: str) -> tuple[tuple[str, str], ...]:
    """The names and ids of the app's functions, where its look-up didn't tell."""
    listed = _items(await _ask_cli(until, env, "app", "info", app_id), "functions")
    return tuple((name, _text(function, "id") or "") for name, function in listed)


async def _look_up(name: str, function_id: str) -> tuple[str, AnyFunction, FunctionInfo]:
    import modal

    function = modal.Function.from_id(function_id)
    await function.hydrate.aio()
    return clean(name), function, await function.info.aio()


async def _ask_gpus(
    function: AnyFunction, last_sign: EpochSeconds | None
) -> tuple[Seconds, bool] | None:
    if hasattr(function, "metrics"):
        metrics = await function.metrics.export.aio(groups=["gpu"], bucket_size=MINUTE)
        return gpu_idle(metrics.series.values(), metrics.until)
    # Before modal 1.6.2: nearly all samples of the silence, of which the beginning is work.
    since = datetime.fromtimestamp(last_sign, UTC) + SAMPLE_AGE if last_sign else None
    stats = await function.stats.aio(since=since)
    for name, figures in stats.container_percentile_stats.items():
        for each in figures.percentiles:
            if name.casefold() == "gpu utilization (%)" and each.percentile == NEARLY_ALL:
                idle = 0 <= each.value <= IDLE_MAXIMUM["%"]
                return (stats.until - stats.since).total_seconds() if idle else 0.0, False
    return None


# ======================================================================================
# main: arguments, the order of the blocks, errors to exit statuses. The only clock that
# tells the time of day, and the only hold on the terminal.
# ======================================================================================

# Log entries, as many as `modal app logs` gives; seconds.
TAIL_LIMIT, TIMEOUT_LIMIT = 20_000, 86_400
# Seconds between two looks of --watch, and between two of the line under the logs of --follow.
INTERVAL_DEFAULT = 15.0
# Log entries that are asked for where the cause of a failure may stand above the tail, and pieces
# of a followed log, a line or some, that the verdict looks at.
LOOKED_BACK = FOLLOWED = 5_000
# Seconds for which a look at the run may hold up the logs that are followed.
GLANCE = 2.0
# The verdicts of a list in the order in which they are shown: those that need somebody first.
NEEDS = ("died", "stuck", "orphaned", "retrying", "slow", "waiting", "running", "unknown", "queued")
ERASE_LINE = b"\r\x1b[2K"


@dataclass(frozen=True)
class Options:
    """What the command line asks for; `query` is None where the runs are to be listed."""

    query: str | None = None
    output: Literal["tail", "no_logs", "follow", "watch"] = "tail"
    tail: int = 200
    interval: Seconds = INTERVAL_DEFAULT
    limit: int = CANDIDATES_SHOWN
    env: str | None = None
    volume: str | None = None
    hardware: bool = False
    json: bool = False
    show_secrets: bool = False
    debug: bool = False  # looked for in the words, since a wrong command line makes no Options
    timeout: Seconds = 60.0

    @property
    def mask(self) -> Callable[[str], str]:
        """What every text passes before it is shown."""
        return str if self.show_secrets else mask_secrets


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ProgressError(f"{clean(message)}; see {self.prog} --help", "usage")

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - as argparse has it
        # Argparse would keep a failed write to itself; with -OO the text is in the file alone.
        print(Path(__file__).read_text("utf-8").split('"""')[1], flush=True)


def _within(number: type[Number], least: float, most: float) -> Callable[[str], Number]:
    """An argument's type: a number between two bounds."""

    def read(text: str) -> Number:
        with contextlib.suppress(ValueError):
            if NUMBER.fullmatch(text) and least <= number(text) <= most:
                return number(text)
        raise argparse.ArgumentTypeError(f"it must be a number from {least:,g} to {most:,}")

    return read


def parse_arguments(words: Sequence[str]) -> Options:
    """Judge the command line before any reading; ProgressError where it is wrong."""
    parser = _Parser(prog="run_progress.py", allow_abbrev=False)
    parser.add_argument("query", metavar="RUN", nargs="?", type=read_query)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-n", "--tail", type=_within(int, 1, TAIL_LIMIT), metavar="N")
    output.add_argument("--no-logs", dest="output", action="store_const", const="no_logs")
    output.add_argument("-f", "--follow", dest="output", action="store_const", const="follow")
    output.add_argument("--watch", dest="output", action="store_const", const="watch")
    parser.add_argument("--interval", type=_within(float, 2, TIMEOUT_LIMIT), metavar="S")
    parser.add_argument("--limit", type=_within(int, 1, TAIL_LIMIT), metavar="N")
    parser.add_argument("-e", "--env", metavar="ENV")
    parser.add_argument("--volume", metavar="NAME")
    for switch in ("--hardware", "--json", "--show-secrets", "--debug"):
        parser.add_argument(switch, action="store_true")
    parser.add_argument("--timeout", type=_within(float, 0.1, TIMEOUT_LIMIT), metavar="S")
    given = parser.parse_args(words)
    if given.query is not None and not clean(given.query).strip():
        parser.error("RUN is empty, or can't be printed: give an id or a part of one")
    if given.query is None and (given.tail or given.output in ("no_logs", "follow")):
        parser.error("RUN is missing: --tail, --no-logs and --follow need one")
    if given.query is None and given.hardware:
        parser.error("RUN is missing: --hardware needs one")
    if given.query is not None and given.limit:
        parser.error("--limit goes with the list of runs, which takes no RUN")
    if given.json and given.output in ("follow", "watch"):
        parser.error(f"--json can't be combined with --{given.output}")
    if given.interval and given.output != "watch":
        parser.error("--interval goes with --watch")
    # What is not given, or empty, is as it is by default.
    return Options(**{name: value for name, value in vars(given).items() if value})


def show_run(options: Options) -> int:
    """Read the run, show its blocks and its logs, or the list; the exit status."""
    with contextlib.ExitStack() as stack:
        logs = None
        if options.query and options.output in ("tail", "follow"):
            logs = stack.enter_context(contextlib.closing(Command("app", "logs")))
        require_modal()
        if options.query is None:
            return show_list(options)
        reading = read_run(options.query, source_of(options, logs))
        with spinner("reading the run from Modal"):
            found = read_now(options, reading)
        if options.hardware and found.hardware and found.hardware.unknown:
            note(options, f"what Modal knows is incomplete: {found.hardware.unknown}")
        if options.output == "watch":
            return watch(looks_at_run(options, found), options.interval)
        show_found = show_object if options.json else show_blocks
        return show_found(options, found, logs)


def read_now(options: Options, reading: Coroutine[None, None, Found]) -> Found:
    """What is read of a run, as it may be shown."""
    return replace(masked(asyncio.run(reading), options.mask), read_at=time.time())


def source_of(options: Options, logs: Command | None = None) -> Source:
    """Where to read, who hears of what meanwhile, as the logs do, and when Modal is asked."""

    def when_known(run: Run) -> None:
        if logs and run.app_id and options.output == "tail":
            logs.ask(logs_words(options, run.app_id))

    async def ask(run: Run, app: App) -> Hardware | None:
        wanted = options.hardware or asks_modal(run, app, time.time())
        return await read_hardware(run, app, options.env) if wanted else None

    volumes = (options.volume,) if options.volume else VOLUMES
    return Source(volumes, options.env, options.timeout, partial(note, options), when_known, ask)


def logs_words(options: Options, app_id: str, *amount: str) -> list[str]:
    """The words of `modal app logs`, `amount` being `-f` or `--tail N`: the N that was given."""
    amount = amount or ("--tail", str(options.tail))
    env = ["-e", options.env] if options.env else []
    return ["app", "logs", app_id, *amount, "--timestamps", *env]


def show_blocks(options: Options, found: Found, logs: Command | None) -> int:
    """The blocks, the logs in their place, and the verdict; the exit status."""
    out = open_console()
    show(out, progress_block(found, judge(found, found.read_at), bar=out.width < PIPE_WIDTH))
    show(out, ["", *rollouts_block(found, out.width)])
    failures, output = found.failures, b""
    failed: tuple[str, ...] = ()
    if logs:
        show(out, [""])
        found, output, failed = show_logs(options, found, logs, out)
        if output and not output.endswith(b"\n"):
            sys.stdout.write("\n")
    were_read = output or (logs and found.run.app_id and not failed)
    tail = judge_logs(options, found, output) if were_read else None
    show(out, ["", *verdict_block(found, judge(found, found.read_at, tail))])
    return complain((*failures, *failed))


def show_object(options: Options, found: Found, logs: Command | None) -> int:
    """The same as one JSON object; the exit status."""
    failures = found.failures
    shown = tail = None
    if logs and found.run.app_id:
        try:
            output = masked(b"".join(logs.lines(options.timeout)), options.mask)
            words = ["modal", *logs_words(options, found.run.app_id)]
            shown = (words, last_states(output).decode(errors="replace"))
            tail = judge_logs(options, found, output)
        except ProgressError as error:
            failures += (masked(f"could not read the logs: {error}", options.mask),)
    print_json(report(found, judge(found, found.read_at, tail), shown))
    return complain(failures)


def show_logs(
    options: Options, found: Found, logs: Command, out: Console
) -> tuple[Found, bytes, tuple[str, ...]]:
    """Pass the logs on as they come: the run as it stands then, what was shown, what failed."""
    run = found.run
    if run.app_id is None:
        why = "no app, and the run is over" if run.ended else "no app yet"
        why = "the app id is malformed" if run.app_id_malformed else why
        show(out, [styled(f"Logs: none, {why}", HEADING)])
        return found, b"", ()
    follow = options.output == "follow" and found.live is not False
    words = logs_words(options, run.app_id, *(["-f"] if follow else []))
    if options.output == "follow":  # of a tail it was asked as soon as the app was known
        logs.ask(words)
    if options.output == "follow" and not follow:
        show(out, [indented(styled("the app is not live: this is the end of its logs", WARN))])
    show(out, [styled(f"Logs: modal {' '.join(words)}", HEADING)])
    output: deque[bytes] = deque(maxlen=FOLLOWED if follow else None)
    failures: list[str] = []

    def arriving() -> Iterator[bytes]:
        try:
            for lines in logs.lines(None if follow else options.timeout):
                piece = masked(lines, options.mask)
                if piece:
                    output.append(piece)
                yield piece
        except ProgressError as error:
            failures.append(masked(f"could not read the logs: {error}", options.mask))

    screen = is_screen(sys.stdout)
    pieces = over_bottom_line(options, found, arriving()) if follow and screen else arriving()
    whole = True
    for piece in pieces:
        sys.stdout.buffer.write(last_states(piece) if whole and not screen else piece)
        sys.stdout.buffer.flush()
        whole = piece.endswith(b"\n") if piece else whole
    found = look_again(options, found) if follow else found
    return found, b"".join(output), tuple(failures)


def over_bottom_line(options: Options, found: Found, log: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of a log over one line on the run; rich's own would change the log above it."""

    def bottom_line() -> bytes:
        line = bottom_text(found, judge(found, time.time()))
        return line[: max(shutil.get_terminal_size().columns - 1, 1)].encode(errors="replace")

    yield bottom_line()
    looked, whole = time.monotonic(), True  # nothing goes under a line that is unfinished
    for piece in log:
        due = time.monotonic() - looked >= INTERVAL_DEFAULT
        if not piece and not (due and whole):
            continue
        if due:
            looked = time.monotonic()
            found = look_again(options, found, GLANCE)
        erased = ERASE_LINE if whole else b""
        whole = not piece or piece.endswith(b"\n")
        yield erased + piece + (bottom_line() if whole else b"")
    if whole:
        yield ERASE_LINE


def judge_logs(options: Options, found: Found, output: bytes) -> Diagnosis:
    """What the tail tells, and where its failures may begin above it, what more entries do."""
    follow, app_id = options.output == "follow", found.run.app_id
    tail = diagnose(output.decode(errors="replace"), 0 if follow else options.tail)
    if follow or not tail.begins_above or options.tail >= LOOKED_BACK or app_id is None:
        return tail
    try:
        with contextlib.closing(Command("app", "logs")) as logs:
            logs.ask(logs_words(options, app_id, "--tail", str(LOOKED_BACK)))
            with spinner("looking for the cause further back"):
                more = masked(b"".join(logs.lines(options.timeout)), options.mask)
    except ProgressError:  # the tail itself was read
        return tail
    return with_earlier(tail, diagnose(more.decode(errors="replace")))


def print_json(value: object) -> None:
    """The only thing on stdout. Text is ASCII, so that every stream and reader can hold it."""
    print(json.dumps(value, indent=2, allow_nan=False, default=as_object), flush=True)


def read_list(options: Options) -> tuple[list[tuple[Run, str]], int, tuple[str, ...]]:
    """The newest runs by need with their verdicts' words, how many more, and what failed."""
    reading = read_runs(source_of(options), options.limit)
    found, more, failures = masked(asyncio.run(reading), options.mask)
    now = time.time()
    rows = [(each.run, judge(each, now).word) for each in found]
    return sorted(rows, key=lambda row: [*NEEDS, row[1]].index(row[1])), more, failures


def show_list(options: Options) -> int:
    """The newest runs; the exit status."""
    if options.output == "watch":
        return watch(looks_at_list(options), options.interval)
    with spinner("reading the runs from Modal"):
        rows, more, failures = read_list(options)
    if options.json:
        print_json([row_object(*row) for row in rows])
    else:
        show(open_console(fold=False), runs_block(rows, more, time.time()))
    return complain(failures)


# What a watch sees: a terminal shows it whole, a pipe gets the lines that are new; and the exit
# status once the watch is over.
Look: TypeAlias = "tuple[RenderableType, list[str], int | None]"


def watch(looks: Iterator[Look], interval: Seconds) -> int:
    """Show each look, one every so many seconds, until the watch is over; the exit status."""
    from rich.live import Live

    screen = is_screen(sys.stdout)
    live = Live(console=new_console(), auto_refresh=False, redirect_stderr=is_screen(sys.stderr))
    look = next(looks)  # before rich hides the cursor
    with live if screen else contextlib.nullcontext():
        while True:
            whole, new, status = look
            if screen:
                live.console.show_cursor()  # rich hides it: it would stay so after Ctrl-Z
                live.update(whole, refresh=True)
            else:
                print("".join(f"{iso(time.time())} {line}\n" for line in new), end="", flush=True)
            if status is not None:
                return status
            wait_while_read(interval)
            look = next(looks)


def looks_at_list(options: Options) -> Iterator[Look]:
    """The newest runs, again and again; new is a line for each run that changed."""
    from rich.console import Group

    said: dict[str, str] = {}
    was_read = False
    while True:
        try:
            rows, more, failures = read_list(options)
            was_read = True
        except ProgressError as error:
            if not was_read:
                raise
            failures = (str(error),)
        note(options, *failures)
        lines = {
            run.run_id: f"{run.run_id} {word}: step {step_text(run.step)}, {run.phase}"
            for run, word in rows
        }
        new = [line for run_id, line in lines.items() if said.get(run_id) != line]
        yield Group(*runs_block(rows, more, time.time())), new, None
        said |= lines


def looks_at_run(options: Options, found: Found) -> Iterator[Look]:
    """The run, again and again; new is its verdict where that, or what it stands on, changed."""
    from rich.console import Group

    said: tuple[object, ...] = ()
    was_over = False
    note(options, *found.failures)
    while True:
        # Where Modal fails meanwhile, nothing was observed: no silence, either.
        judged, run = judge(found, found.read_at), found.run
        standing = (run.status, run.phase, run.step, judged.word, run.attempt, run.app_id)
        line = f"{run.status or 'unknown'} {judged.word}: {verdict_text(found, judged)}"
        if said and standing[-2:] != said[-2:]:
            line += f"; attempt {run.attempt or 'unknown'}, app {run.app_id or 'none'}"
        new = [line] if standing != said else []
        status = status_of_end(found, judged, was_over=was_over)
        out = new_console()
        progress = progress_block(found, judged, bar=out.width < PIPE_WIDTH)
        answer = verdict_block(found, judged)
        whole = Group(*progress, "", *rollouts_block(found, out.width), "", *answer)
        # Where not all has room, the answer comes first.
        has_room = len(out.render_lines(whole)) < out.height
        yield whole if has_room else Group(*answer, "", *progress), new, status
        said, was_over = standing, found.live is False
        found = look_again(options, found)


def status_of_end(found: Found, judged: Judgement, *, was_over: bool) -> int | None:
    """0 if the run completed, 5 if it ended otherwise, 1 if nobody can tell; else None."""
    run, word = found.run, judged.word
    if word == "completed":
        return 0
    # The record, or the result, of an app that is over may only lag: one more look.
    sure = was_over or word != "unknown"
    if not (run.ended and word != "retrying") and not (found.live is False and sure):
        return None
    unsure = word == "unknown" and found.has_result is None
    return complain(found.failures) if unsure else 5


def wait_while_read(interval: Seconds) -> None:
    """Wait. Raises BrokenPipeError as soon as nobody reads the pipe on stdout any longer."""
    until = time.monotonic() + interval
    if not is_screen(sys.stdout):
        pipe = select.poll()
        pipe.register(sys.stdout, 0)
        gone = select.POLLERR | select.POLLHUP
        if any(event & gone for _, event in pipe.poll(1000 * interval)):
            raise BrokenPipeError
    time.sleep(max(0.0, until - time.monotonic()))


def look_again(options: Options, found: Found, patience: Seconds | None = None) -> Found:
    """The run as it stands now; as it stood before, and said so, where Modal fails meanwhile."""

    def doubtful(fresh: Found) -> bool:  # another word may rest on what was read earlier
        changed = options.hardware or judge(fresh, time.time()).word != "running"
        return patience is None and changed

    # What is to be noted of it was, when it was read first.
    source = replace(source_of(options), volumes=[found.volume], note=lambda _: None)
    if patience is not None:
        source = replace(source, patience=patience, ask=None)
    try:
        fresh = read_now(options, refresh(found, source, doubtful))
    except ProgressError as error:
        note(options, str(error))
        return found
    note(options, *fresh.failures)
    if fresh.counted:
        return fresh
    return replace(fresh, rollouts=found.rollouts, counted=found.counted)


def spinner(text: str) -> contextlib.AbstractContextManager[object]:
    """What shows on stderr while something is awaited: on a terminal only."""
    from rich.console import Console

    if not is_screen(sys.stderr):
        return contextlib.nullcontext()
    return Console(stderr=True).status(text)


def note(options: Options, *texts: str) -> None:
    """A line each on stderr about what is no error."""
    for text in texts:
        tell(f"note: {masked(text, options.mask)}", dim=True)


def complain(failures: Sequence[str]) -> int:
    """A line each on stderr about what failed though the run was shown; the exit status."""
    for failure in failures:
        tell(f"error: {failure}")
    return 1 if failures else 0


def tell(line: str, *, dim: bool = False) -> None:
    """A line on stderr; one that is gone or full changes nothing else."""
    if is_screen(sys.stderr):
        dimmed = dim and not os.environ.get("NO_COLOR")
        line = ERASE_LINE.decode() + (f"\x1b[2m{line}\x1b[0m" if dimmed else line)
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Run the command; errors become one line and an exit status, never a traceback."""
    for name in ("stdout", "stderr"):
        # It may be closed from the start.
        stream = getattr(sys, name) or Path(os.devnull).open("w")  # noqa: SIM115
        setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):  # what it can't hold is replaced
            stream.reconfigure(errors="replace")
    # A read that was given up leaves futures and generators in the SDK that nobody awaits.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        return run_command(sys.argv[1:])
    except BrokenPipeError:  # the reader has what it wanted
        return 0
    except OSError as error:
        return complain([str(error)])


def run_command(words: Sequence[str]) -> int:
    """Run the command and tell what is wrong with it; OSError where stdout can't be written."""
    try:
        return show_run(parse_arguments(words))
    except BrokenPipeError:
        raise
    except Exception as raised:  # noqa: BLE001 - the last resort
        error = raised if isinstance(raised, ProgressError) else unexpected(raised)
        for line in traceback.format_exc().splitlines() if "--debug" in words else ():
            tell(masked(clean(line), mask_secrets))
    message = masked(str(error), mask_secrets)
    candidates = masked(error.candidates, mask_secrets)
    if "--json" in words:
        rows = [row_object(run) for run in candidates]
        print_json({"error": {"kind": error.kind, "message": message, "candidates": rows}})
    elif candidates:
        block = runs_block([(run, None) for run in candidates], error.more, time.time())
        show(open_console(fold=False), block)
    complain([message])
    return STATUS_OF[error.kind]


def unexpected(error: Exception) -> ProgressError:
    """Name what was raised, and where it came from; what the system refuses names itself."""
    if isinstance(error, OSError):
        return ProgressError(str(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{'/'.join(last.filename.split('/')[-2:])}:{last.lineno}"
    over = f", while handling: {error.__context__}" if error.__context__ else ""
    words = f"{type(error).__name__}: {error} ({place}){over}; --debug shows the traceback"
    return ProgressError(clean(" ".join(words.split())))


if __name__ == "__main__":
    # Straight out, everything being flushed: the SDK's own clean-up at exit takes a while, and
    # what a full disk or a closed pipe did not take would fail there again.
    os._exit(main())
