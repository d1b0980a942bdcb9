#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["modal>=1.4.0", "rich>=13.7"]
# ///
"""How far is a modal-training-gym run, what is it doing, and what is it stuck on?

usage: run_progress.py RUN [--tail N | --no-logs | --follow] [-e ENV] [--timeout S]
                       [--show-secrets]

RUN is any scrap of an id, ignoring case: a run id, a Modal app id, a W&B run id,
a prefix or a substring of a run id, or a pasted Modal or W&B URL ending in one.

  -n, --tail N     show the last N log entries, 1 to 20,000 (default: 200)
  --no-logs        show the metadata alone: fast
  -f, --follow     stream the logs of a live run until Ctrl-C
  -e, --env ENV    the Modal environment (default: the profile's)
  --timeout S      seconds that the reading, and again the tail, may take (default: 60)
  --show-secrets   show credentials whole, not as their first four characters and …
  -h, --help       show this text

examples:
  run_progress.py elastic-frog-a1b2c3d4e5f6
  run_progress.py elastic --no-logs
  run_progress.py ap-0123456789abcdefABCDEF --tail 50
  run_progress.py https://modal.com/id/ap-0123456789abcdefABCDEF --follow

exit status:
  0    the run was shown
  1    something could not be read: Modal, the token, the volume, the logs
  2    the command line is wrong
  3    no run matches
  4    several runs match; they are listed
  130  interrupted

It only ever reads: the volume training-gym-metadata, the state of the run's app, its logs.
"""

from __future__ import annotations

import os
import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C while the imports below run: no traceback, and there is nothing yet to clean up.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import argparse
import asyncio
import contextlib
import difflib
import io
import json
import logging
import math
import re
import select
import subprocess
import sys
import tempfile
import time
import unicodedata
import warnings
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import modal
    from rich.console import Console, RenderableType

T = TypeVar("T")

# ======================================================================================
# Records: what the volume's JSON means. All knowledge of field names and old shapes is
# here; what leaves this section is checked, cleaned and in seconds, unknown is None.
# ======================================================================================

Seconds: TypeAlias = float
EpochSeconds: TypeAlias = float

# Characters of one field that are kept: far above any real id, URL or phase name.
FIELD_LIMIT = 1_000
# Lines of an error message that are kept: its head, and its end, where a traceback says why.
ERROR_HEAD, ERROR_END = 10, 3
# The last second that a datetime can hold; what lies beyond is no time.
YEAR_10000 = 253_402_300_800
# Counts beyond this (2^53) are noise: JSON numbers stop being exact there.
COUNT_LIMIT = 2**53
# Bytes that are decoded at first for one row of the rollouts summary: rows have 250 to 600.
ROW_BYTES = 1_024

ENDED_STATUSES = frozenset({"completed", "failed", "stopped", "cancelled"})
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
APP_ID = re.compile(r"ap-[A-Za-z0-9]+")
HTTPS_URL = re.compile(r"https://[^\s\"'<>\\`]+")
ROLLOUT_FILE = re.compile(r"(?P<run_id>.+)__(?P<rollout_id>\d+)\.json")
TIMING_FILE = re.compile(r"(?P<rollout_id>\d+)__(?P<role>\w+)\.json")
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
    total: Seconds | None


@dataclass(frozen=True)
class Rollout:
    """One recorded rollout; `trouble` words its error summary."""

    rollout_id: int
    created_at: EpochSeconds | None = None
    samples: int | None = None
    mean_reward: float | None = None
    seconds: Seconds | None = None
    trouble: str | None = None


@dataclass(frozen=True)
class Run:
    """A TrainingRun record; `last_sign` is the newest sign of life that it holds."""

    run_id: str
    framework: str | None
    status: str | None
    phase: str | None
    waiting_for_gpu: bool
    step: Step | None
    app_id: str | None
    app_id_malformed: bool
    url: str | None
    created_at: EpochSeconds | None
    started_at: EpochSeconds | None
    ended_at: EpochSeconds | None
    last_sign: EpochSeconds | None
    reason: str | None
    error: tuple[str, ...]
    attempt: int | None
    resumed_from: str | None
    wandb_ids: tuple[str, ...]
    timings: Timings | None
    latest_rollout: Rollout | None
    latest_rollout_id: int | None

    @property
    def ended(self) -> bool:
        """Whether the status says that the run is over."""
        return (self.status or "").casefold() in ENDED_STATUSES


@dataclass(frozen=True)
class Row:
    """A runs summary row: what matching needs, and the row itself for `parse_run`."""

    run_id: str
    app_id: str | None
    wandb_ids: tuple[str, ...]
    created_at: EpochSeconds | None
    record: object


def clean(text: str) -> str:
    """Drop what could steer a screen: escapes, control, direction and unprintable characters."""
    return "".join(
        character
        for character in ESCAPE.sub("", text)
        if character.isprintable() or unicodedata.category(character) == "Zs"
    )


def parse_json(raw: bytes) -> object:
    """Decode a file of the volume.

    Raises ValueError with the reason where it is not JSON (cut off, nested too deep, …).
    """
    try:
        parsed: object = json.loads(raw)
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deep") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "broken text"
        raise ValueError(f"not JSON: {reason} {len(raw):,} bytes long") from None
    return parsed


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
    shown = clean(found[: 2 * FIELD_LIMIT]).strip()
    return shown if len(shown) <= FIELD_LIMIT else shown[:FIELD_LIMIT] + "…"


def _number(value: object, *keys: str) -> float | None:
    found = _scalar(value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _count(value: object, *keys: str) -> int | None:
    number = _number(value, *keys)
    return int(number) if number is not None and 0 <= number <= COUNT_LIMIT else None


def _duration(value: object, *keys: str) -> Seconds | None:
    number = _number(value, *keys)
    return number if number is not None and 0 <= number < YEAR_10000 else None


def _time(value: object, *keys: str) -> EpochSeconds | None:
    """A time from a number, a number in a string, or ISO 8601 (UTC where it has no zone)."""
    found = _scalar(value, *keys)
    number = _number(found)
    if number is None and isinstance(found, str):
        try:
            moment = datetime.fromisoformat(found.strip())
            number = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return number if number is not None and 0 < number < YEAR_10000 else None


def _items(value: object, *keys: str) -> Iterable[tuple[str, object]]:
    found = _member(value, *keys)
    return found.items() if isinstance(found, dict) else ()


def _elements(value: object, *keys: str) -> Iterable[object]:
    found = _member(value, *keys)
    return found if isinstance(found, list) else ()


def _newest(times: Iterable[EpochSeconds | None]) -> EpochSeconds | None:
    return max((time for time in times if time is not None), default=None)


def parse_run(record: object, run_id: str) -> Run:
    """Make a Run from a record of any age; `run_id` is its key in the volume."""
    progress = _member(record, "metadata", "framework_progress")
    phase = _text(record, "framework_status") or _text(progress, "phase") or None
    status = _text(record, "status") or None
    latest = _parse_rollout(_member(record, "metadata", "latest_rollout"))
    app_id = _parse_app_id(record)
    ended = (status or "").casefold() in ENDED_STATUSES
    progress_rollout_id = _count(progress, "rollout_id")
    return Run(
        run_id=run_id,
        framework=_text(record, "framework") or None,
        status=status,
        phase=phase,
        waiting_for_gpu=_is_false(progress, "is_active")
        and not ended
        and phase is not None
        and _text(progress, "phase") == phase,
        step=_parse_step(progress),
        app_id=app_id,
        app_id_malformed=app_id is None and _scalar(record, "modal_app_id") not in (None, ""),
        url=_parse_url(record, app_id),
        created_at=_time(record, "created_at"),
        started_at=_time(record, "started_at"),
        ended_at=_time(record, "ended_at") or _time(record, "completed_at"),
        last_sign=_newest(
            (
                _time(record, "updated_at"),
                _time(progress, "updated_at"),
                _time(record, "metadata", "last_attempt_started_at"),
                latest.created_at if latest else None,
                *_open_substep_starts(record),
            )
        ),
        reason=_text(record, "metadata", "terminal_reason") or None,
        error=_parse_error(record),
        attempt=_count(record, "metadata", "attempt_count"),
        resumed_from=_parse_resumed_from(_member(record, "metadata")),
        wandb_ids=_parse_wandb_ids(record, run_id),
        timings=_parse_timings(record, _count(progress, "current")),
        latest_rollout=latest,
        latest_rollout_id=_largest(
            latest.rollout_id if latest else None,
            progress_rollout_id - 1 if progress_rollout_id else None,
        ),
    )


def _largest(*numbers: int | None) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def _is_false(value: object, key: str) -> bool:
    found = _scalar(value, key)
    return found is False or (isinstance(found, str) and found.strip().casefold() == "false")


def _parse_step(progress: object) -> Step | None:
    current = _count(progress, "current")
    if current is None:
        rollout_id = _count(progress, "rollout_id")
        current = None if rollout_id is None else rollout_id + 1
    if current is None:
        return None
    return Step(current, _count(progress, "total") or None, _text(progress, "unit") or "step")


def _parse_app_id(record: object) -> str | None:
    found = _scalar(record, "modal_app_id")
    if not isinstance(found, str):
        return None
    field = found.strip()
    if HTTPS_URL.fullmatch(field):
        field = _last_segment(field)
    return field if APP_ID.fullmatch(field) else None


def _last_segment(url: str) -> str:
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return path.rstrip("/").rpartition("/")[2]


def _parse_url(record: object, app_id: str | None) -> str | None:
    for key in ("modal_app_url", "modal_app_id"):
        url = _text(record, key)
        if url and HTTPS_URL.fullmatch(url):
            return url
    return f"https://modal.com/id/{app_id}" if app_id else None


def _parse_error(record: object) -> tuple[str, ...]:
    found = _scalar(record, "error_message")
    if not isinstance(found, str):
        return ()
    lines = [
        shown if len(shown) <= FIELD_LIMIT else shown[:FIELD_LIMIT] + "…"
        for line in found.splitlines()
        if (shown := clean(line.expandtabs(4)).rstrip())
    ]
    left_out = len(lines) - ERROR_HEAD - ERROR_END
    if left_out <= 1:
        return tuple(lines)
    return (*lines[:ERROR_HEAD], f"… {left_out} more lines …", *lines[-ERROR_END:])


def _parse_resumed_from(metadata: object) -> str | None:
    name = _text(metadata, "resume_checkpoint_name") or _text(metadata, "resumed_from_checkpoint")
    if name:
        return name
    iteration = _count(metadata, "resume_from_iteration")
    return None if iteration is None else f"iteration {iteration}"


def _parse_wandb_ids(record: object, run_id: str) -> tuple[str, ...]:
    blocks = [_member(record, "config", key) for key in ("wandb", "metrics")]
    attempts = [
        attempt
        for key in ("wandb_attempts", "metric_attempts")
        for attempt in _elements(record, "metadata", key)
    ]
    recorded = [found for source in (*blocks, *attempts) if (found := _text(source, "run_id"))]
    if recorded:
        return tuple(dict.fromkeys(recorded))
    return (run_id[:8],) if any(isinstance(block, dict) for block in blocks) else ()


def _open_substep_starts(record: object) -> Iterator[EpochSeconds | None]:
    for _, substeps in _items(record, "substep_times"):
        for _, substep in _items(substeps):
            if _duration(substep, "duration_s") is None and _time(substep, "end") is None:
                yield _time(substep, "start")


def _parse_timings(record: object, current: int | None) -> Timings | None:
    """The latest whole step of `step_times` and `substep_times`."""
    steps = {
        int(key)
        for field in ("step_times", "substep_times")
        for key, _ in _items(record, field)
        if key.isdecimal() and len(key) <= len(str(COUNT_LIMIT))
    }
    for step in sorted(steps, reverse=True):
        begun_after = (current is not None and step < current) or step < max(steps)
        timings = _parse_step_timings(record, step, begun_after=begun_after)
        if timings:
            return timings
    return None


def _parse_step_timings(record: object, step: int, *, begun_after: bool) -> Timings | None:
    """The timings of a step that is whole: its duration is there, or a later one has begun."""
    times = _member(record, "step_times", str(step))
    total = _duration(times, "duration_s")
    start, end = _time(times, "start"), _time(times, "end")
    if total is None and start is not None and end is not None and end >= start:
        total = end - start
    substeps = [
        (_time(substep, "start"), name, _duration(substep, "duration_s"))
        for name, substep in _items(record, "substep_times", str(step))
    ]
    closed = all(seconds is not None for _, _, seconds in substeps)
    if total is None and (times is not None or not begun_after or not substeps or not closed):
        return None
    phases = [
        (began, clean(name)[:FIELD_LIMIT], seconds)
        for began, name, seconds in substeps
        if seconds is not None
    ]
    return Timings(step, _in_order(phases), _span(phases) if total is None else total)


_Phases: TypeAlias = list[tuple[EpochSeconds | None, str, Seconds]]


def _in_order(phases: _Phases) -> tuple[tuple[str, Seconds], ...]:
    """Phases by their start; as they stand where a start is missing."""
    if all(began is not None for began, _, _ in phases):
        phases = sorted(phases, key=lambda phase: phase[0] or 0)
    return tuple((name, seconds) for _, name, seconds in phases)


def _span(phases: _Phases) -> Seconds | None:
    """From the first start to the last end, since phases can overlap; else their sum."""
    if not phases:
        return None
    starts = [began for began, _, _ in phases if began is not None]
    if len(starts) < len(phases):
        return sum(seconds for _, _, seconds in phases)
    return max(began + seconds for began, _, seconds in phases if began is not None) - min(starts)


class TimingFile(NamedTuple):
    """The name of a substep timing record: which rollout, whose."""

    rollout_id: int
    role: str
    name: str


def parse_timing_names(names: Iterable[str]) -> tuple[TimingFile, ...]:
    """The per-step files of `substep-timing/<run_id>/`, newest step first."""
    found = [
        TimingFile(int(match["rollout_id"]), match["role"], name)
        for name in names
        if (match := TIMING_FILE.fullmatch(name)) and len(name) <= FIELD_LIMIT
    ]
    return tuple(sorted(found, key=lambda file: (-file.rollout_id, file.role)))


def files_of_newest_steps(files: Sequence[TimingFile], steps: int) -> tuple[TimingFile, ...]:
    """The files of the newest steps: the driver's alone where it wrote one.

    The driver's phases add up to the step; another role's run beside them.
    """
    newest = sorted({file.rollout_id for file in files}, reverse=True)[:steps]
    drivers = {file.rollout_id for file in files if file.role == "driver"}
    return tuple(
        file
        for file in files
        if file.rollout_id in newest and (file.role == "driver" or file.rollout_id not in drivers)
    )


def parse_substep_timings(records: Mapping[TimingFile, object]) -> Timings | None:
    """The newest whole step among substep timing records."""
    rollout_ids = sorted({file.rollout_id for file in records}, reverse=True)
    for rollout_id in rollout_ids:
        mine = {file: record for file, record in records.items() if file.rollout_id == rollout_id}
        if any(_is_false(record, "final") for record in mine.values()):
            continue
        final = all(_scalar(record, "final") is True for record in mine.values())
        phases = [phase for record in mine.values() for phase in _substep_phases(record)]
        if phases and (final or rollout_id < rollout_ids[0]):
            by_driver = all(file.role == "driver" for file in mine)
            total = sum(seconds for _, _, seconds in phases) if by_driver else None
            return Timings(rollout_id + 1, _in_order(phases), total)
    return None


def _substep_phases(record: object) -> Iterator[tuple[EpochSeconds | None, str, Seconds]]:
    for name, phase in _items(record, "phases"):
        shown = clean(name)[:FIELD_LIMIT]
        if isinstance(phase, list):
            spans = [
                (start, end)
                for span in phase
                if isinstance(span, list) and len(span) == 2  # noqa: PLR2004 - [start, end]
                if (start := _number(span[0])) is not None
                if (end := _number(span[1])) is not None and end >= start
            ]
            if spans:
                yield min(spans)[0], shown, sum(end - start for start, end in spans)
            continue
        for key in ("busy_duration_s", "total_duration_s"):
            seconds = _duration(phase, key)
            if seconds is not None:
                yield _number(phase, "first_start_s"), shown, seconds
                break


def parse_rows(summary: object) -> tuple[Row, ...]:
    """The rows of the runs summary that have an id, each id once: its newest row."""
    items = summary if isinstance(summary, list) else _elements(summary, "items")
    rows: dict[str, Row] = {}
    for item in items:
        row = parse_row(item, _text(item, "training_run_id") or _text(item, "run_id") or "")
        if row and _is_newer(row, rows.get(row.run_id)):
            rows[row.run_id] = row
    return tuple(rows.values())


def parse_row(record: object, run_id: str) -> Row | None:
    """What matching needs of a record; None where its id can't be one."""
    if not RUN_ID.fullmatch(run_id):
        return None
    return Row(
        run_id=run_id,
        app_id=_parse_app_id(record),
        wandb_ids=_parse_wandb_ids(record, run_id),
        created_at=_time(record, "created_at"),
        record=record,
    )


def _is_newer(mine: Row | Rollout, other: Row | Rollout | None) -> bool:
    return other is None or (mine.created_at or 0) > (other.created_at or 0)


def parse_rollouts(raw: bytes, run_id: str) -> tuple[Rollout, ...]:
    """This run's rows of the rollouts summary, each id once: its newest row, in order.

    Raises ValueError as `parse_json` does.
    """
    items: Iterable[object] | None = _rows_of_run(raw, run_id)
    if items is None:
        summary = parse_json(raw)
        items = summary if isinstance(summary, list) else _elements(summary, "items")
    rollouts: dict[int, Rollout] = {}
    for item in items:
        if _text(item, "training_run_id") != run_id:
            continue
        rollout = _parse_rollout(item)
        if rollout and _is_newer(rollout, rollouts.get(rollout.rollout_id)):
            rollouts[rollout.rollout_id] = rollout
    return tuple(rollouts[rollout_id] for rollout_id in sorted(rollouts))


def _rows_of_run(raw: bytes, run_id: str) -> list[object] | None:
    """The rows of one run out of the hundreds of thousands of all, decoding only those.

    None where that might not give what decoding all would give. It will where the text has the
    beginning and the end of a summary, no list but that of the rows, so that an object after `[`
    or `,` is a row, and no escapes that could hide a quote or an id.
    """
    whole = re.match(rb'\{"items":\s*\[', raw) and raw.rstrip().endswith(b"}]}")
    if not whole or raw.count(b"[") != 1 or raw.count(b"]") != 1:
        return None
    if raw.count(b'"') % 2 or b'\\"' in raw or b"\\u00" in raw:
        return None
    rows: list[object] = []
    named = b'"' + run_id.encode() + b'"'
    end = 0
    while (at := raw.find(named, end)) >= 0:
        start = raw.rfind(b"{", 0, at)
        found = _decode_at(raw, start)
        if found is None or raw[max(0, start - 8) : start].rstrip()[-1:] not in (b"[", b","):
            return None
        row, end = found
        rows.append(row)
    return rows


def _decode_at(raw: bytes, start: int) -> tuple[object, int] | None:
    """The JSON value that starts there, and where it ends; None where there is none."""
    size = ROW_BYTES
    while True:
        try:
            text = raw[start : start + size].decode()
            value, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            return None
        except ValueError:  # perhaps only because the piece ends in the middle of it
            if start + size >= len(raw):
                return None
            size *= 8
        else:
            return value, start + len(text[:end].encode())


def _parse_rollout(item: object) -> Rollout | None:
    rollout_id = _count(item, "rollout_id")
    if rollout_id is None:
        return None
    return Rollout(
        rollout_id=rollout_id,
        created_at=_time(item, "created_at"),
        samples=_count(item, "total"),
        mean_reward=_number(item, "mean"),
        seconds=_duration(item, "rollout_time"),
        trouble=_parse_trouble(_member(item, "error_summary")),
    )


def _parse_trouble(summary: object) -> str | None:
    """`verdict: kind count, … of total`; None where the summary counts no errors."""
    verdict = _text(summary, "verdict")
    counts = [
        f"{kind} {count}"
        for kind in ("remote_error", "response_missing", "infra_invalid", "limits_exceeded")
        if (count := _count(summary, kind))
    ]
    if not verdict and not counts:
        return None
    total = _count(summary, "total_samples")
    told = ", ".join(counts) + (f" of {total} samples" if counts and total else "")
    return ": ".join(part for part in (verdict, told) if part)


def parse_rollout_ids(names: Iterable[str], run_id: str) -> frozenset[int]:
    """The ids of this run's files in `training-rollouts/`."""
    return frozenset(
        int(match["rollout_id"])
        for name in names
        if (match := ROLLOUT_FILE.fullmatch(name))
        and match["run_id"] == run_id
        and len(match["rollout_id"]) <= len(str(COUNT_LIMIT))
    )


@dataclass(frozen=True)
class App:
    """What Modal says of an app; `live` is None where it could not say, `unknown` tells why."""

    live: bool | None
    state: str = ""
    stopped_at: EpochSeconds | None = None
    stopped_by: str | None = None
    unknown: str | None = None


LIVE_STATES = frozenset({"ephemeral", "detached", "deployed", "initializing"})


def parse_app_list(listed: object, app_id: str) -> App:
    """Find an app in `modal app list --json`, whose keys and states changed with releases."""
    for item in listed if isinstance(listed, list) else ():
        keys = {key.casefold().replace(" ", "_"): value for key, value in _items(item)}
        if keys.get("app_id") != app_id:
            continue
        word = (_text(keys, "state") or "").rstrip(".")
        state = "detached" if word == "ephemeral (detached)" else word
        return App(state in LIVE_STATES, state, _time(keys, "stopped_at"))
    # The list holds running, deployed and recently stopped apps: one that is not in it is over.
    return App(live=False, state="stopped")


# ======================================================================================
# Matching: a query and what is known of the runs -> the ids that it means. Pure.
# ======================================================================================

# Candidates that are listed; more would push the advice off the screen.
CANDIDATES_SHOWN = 20
# A query longer than any id is a paste gone wrong; it is compared, but near misses aren't sought.
QUERY_LIMIT = 100
FULL_RUN_ID = re.compile(
    r"[a-z0-9]+(?:-[a-z0-9]+)+-[0-9a-f]{12}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
PASTED_URL = re.compile(r"(?:https?://|modal\.com/|(?:www\.)?wandb\.ai/)", re.IGNORECASE)


def read_query(typed: str) -> str:
    """The query in the form in which it is compared: an id out of a URL, in lower case."""
    query = typed.strip()
    if PASTED_URL.match(query):
        query = _id_in_url(query)
    return query.casefold()


def _id_in_url(url: str) -> str:
    segments = [part for part in re.split(r"[?#]", url)[0].split("/") if part]
    for segment in segments:
        if APP_ID.fullmatch(segment):
            return segment
    if "runs" in segments[:-1]:  # wandb.ai/<entity>/<project>/runs/<id>, perhaps /overview
        return segments[segments.index("runs") + 1]
    return segments[-1]


def full_run_id(query: str) -> str | None:
    """The query where it can only be a whole run id, so that its record can be asked for."""
    return query if FULL_RUN_ID.fullmatch(query) else None


def match_runs(query: str, rows: Iterable[Row], run_ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that the query means; the first tier in which anything matches decides."""
    rows = tuple(rows)
    ids = sorted({*run_ids, *(row.run_id for row in rows)})
    for tier in _tiers(query, rows, ids):
        if found := tuple(tier):
            return found
    return ()


def _tiers(query: str, rows: Sequence[Row], ids: Sequence[str]) -> Iterator[Iterator[str]]:
    yield (run_id for run_id in ids if run_id.casefold() == query)
    yield (row.run_id for row in rows if (row.app_id or "").casefold() == query)
    yield (row.run_id for row in rows if query in map(str.casefold, row.wandb_ids))
    yield (run_id for run_id in ids if run_id.casefold().startswith(query))
    yield (run_id for run_id in ids if query in run_id.casefold())


def nearest_runs(query: str, run_ids: Iterable[str]) -> tuple[str, ...]:
    """Up to three ids that the query may have meant, the nearest first."""
    if len(query) > QUERY_LIMIT:
        return ()
    scores: dict[str, float] = {}
    for run_id in run_ids:
        folded = run_id.casefold()
        # A scrap is compared with as much of the id as was typed, and with its words.
        for part in (folded, folded[: len(query)], folded.rpartition("-")[0]):
            matcher = difflib.SequenceMatcher(None, part, query)
            if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR:
                scores[run_id] = max(scores.get(run_id, 0), matcher.ratio())
    near = [run_id for run_id, score in scores.items() if score >= NEAR]
    return tuple(sorted(near, key=lambda run_id: (-scores[run_id], run_id))[:3])


# difflib's similarity, 0 to 1, from which an id is worth suggesting: one or two slips of ten keys.
NEAR = 0.75


# ======================================================================================
# Reading: the only part that talks to Modal's SDK. It asks, it never writes; calls that
# do not need each other's answers run together.
# ======================================================================================

VOLUME = "training-gym-metadata"
RUNS, RUNS_SUMMARY = "training-runs", "training-runs-summary/summary.json"
ROLLOUTS, ROLLOUTS_SUMMARY = "training-rollouts", "training-rollouts-summary/summary.json"
SUBSTEP_TIMING, RESULTS = "substep-timing", "train-results"
OLDEST_MODAL = (1, 4, 0)
# Seconds for which the app's state may hold the blocks back once all else is there.
APP_PATIENCE = 5.0
# Records read at once while looking for an app id or a W&B id.
RECORDS_AT_ONCE = 32
# Newest steps whose timing files are read: the one under way, and the last whole one.
TIMED_STEPS = 2


class ProgressError(Exception):
    """What ends the command without showing a run: a line for the user, and an exit status."""

    status = 1


class NoMatchError(ProgressError):
    """No run matches the query."""

    status = 3


class SeveralMatchError(ProgressError):
    """Several runs match: the newest `candidates` of them are to be listed."""

    status = 4

    def __init__(self, message: str, candidates: Sequence[Run], more: int) -> None:
        """Keep the runs to list, and how many more there are."""
        super().__init__(message)
        self.candidates = tuple(candidates)
        self.more = more


class ReadError(ProgressError):
    """A call to Modal that failed: what was asked for, and Modal's own words."""

    def __init__(self, what: str, why: str) -> None:
        """Say it in one line."""
        super().__init__(f"could not read {what}: {why}")
        self.what = what
        self.why = why


class BadFileError(ReadError):
    """A file that Modal did give, or knows not to exist, but that holds no JSON."""


@dataclass(frozen=True)
class Rollouts:
    """What is recorded of a run's rollouts; `recorded` is None where nothing could be read."""

    recorded: int | None
    latest_id: int | None
    rollouts: tuple[Rollout, ...]
    incomplete: str | None = None

    @property
    def newest_at(self) -> EpochSeconds | None:
        """When the newest rollout was written."""
        return _newest(rollout.created_at for rollout in self.rollouts)


@dataclass(frozen=True)
class Found:
    """All that was read of one run; `failures` are the calls that went unanswered."""

    run: Run
    app: App | None
    rollouts: Rollouts
    has_result: bool
    stale: str | None
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Store:
    """The volume, and until when it may answer."""

    volume: modal.Volume
    patience: Seconds
    deadline: float

    async def fetch(self, path: str) -> bytes | None:
        """The contents of a file; None where there is none. ReadError where Modal fails."""

        async def contents() -> bytes:
            return b"".join([chunk async for chunk in self.volume.read_file.aio(path)])

        try:
            return await self._in_time(contents(), path)
        except FileNotFoundError:
            return None

    async def list(self, folder: str) -> dict[str, int]:
        """The files of a folder and when each was written, in seconds since the epoch."""
        import modal.exception

        listing = self.volume.listdir.aio(folder, recursive=False)
        try:
            entries = await self._in_time(listing, f"{folder}/")
        except (FileNotFoundError, modal.exception.NotFoundError):
            return {}
        return {entry.path.rpartition("/")[2]: entry.mtime for entry in entries}

    async def read(self, path: str, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of a file; BadFileError where it is missing or isn't JSON."""
        raw = await self.fetch(path)
        if raw is None:
            raise BadFileError(path, "it does not exist")
        try:
            return parse(raw)
        except ValueError as error:
            raise BadFileError(path, str(error)) from None

    async def _in_time(self, answer: Awaitable[T], what: str) -> T:
        import modal.exception

        try:
            async with asyncio.timeout_at(self.deadline):
                return await answer
        except (FileNotFoundError, modal.exception.NotFoundError):
            raise
        except TimeoutError:
            raise ReadError(what, f"no answer within {self.patience:g} s") from None
        except _faults() as fault:
            raise ReadError(what, _words(fault)) from fault


@dataclass(frozen=True)
class Asked:
    """What a run id alone determines, asked for at once."""

    record: asyncio.Task[Run]
    has_result: asyncio.Task[bool]
    timing_names: asyncio.Task[dict[str, int]]


def require_modal() -> None:
    """Raise ProgressError where modal is missing or older than what this tool speaks to."""
    needed = ".".join(map(str, OLDEST_MODAL))
    advice = f"it needs {needed} or newer: `uv run {sys.argv[0]} …` brings its own"
    try:
        import modal  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        raise ProgressError(f"modal and rich can't be imported here ({error}); {advice}") from None
    found = sys.modules["modal"].__version__
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < OLDEST_MODAL:
        raise ProgressError(f"found modal {clean(found)}; {advice}")


def _faults() -> tuple[type[Exception], ...]:
    """Every kind of exception with which the SDK, its gRPC or its HTTP client reports a failure."""
    import aiohttp
    import grpclib.exceptions
    import modal.exception

    return (
        modal.exception.Error,
        aiohttp.ClientError,
        grpclib.exceptions.GRPCError,
        grpclib.exceptions.ProtocolError,
        grpclib.exceptions.StreamTerminatedError,
        TimeoutError,
        OSError,
    )


def _words(fault: BaseException) -> str:
    """A failure in Modal's own words, on one line."""
    return clean(" ".join(str(fault).split()))[:FIELD_LIMIT] or type(fault).__name__


async def _read_record(store: Store, run_id: str) -> Run:
    path = f"{RUNS}/{run_id}.json"
    record = await store.read(path, parse_json)
    if not isinstance(record, dict):
        raise BadFileError(path, f"not a record but a {type(record).__name__}")
    return parse_run(record, run_id)


async def _open_store(env: str | None, patience: Seconds) -> Store:
    import modal

    deadline = asyncio.get_running_loop().time() + patience
    volume = modal.Volume.from_name(VOLUME, environment_name=env)
    try:
        async with asyncio.timeout_at(deadline):
            await volume.hydrate.aio()
    except modal.exception.AuthError as fault:
        raise ProgressError(
            f"Modal does not accept the token: {_words(fault)}; run `modal token new`"
        ) from fault
    except modal.exception.NotFoundError as fault:
        raise ProgressError(
            f"{_words(fault)}; check -e/--env and the workspace (`modal profile current`)"
        ) from fault
    except TimeoutError:
        raise ProgressError(
            f"Modal did not answer within {patience:g} s; check the network, then try again"
        ) from None
    except _faults() as fault:
        raise ProgressError(
            f"Modal can't be reached: {_words(fault)}; check the network, then try again"
        ) from fault
    return Store(volume, patience, deadline)


def _ask(store: Store, run_id: str) -> Asked:
    async def has_result() -> bool:
        return await store.fetch(f"{RESULTS}/{run_id}.json") is not None

    return Asked(
        record=asyncio.create_task(_read_record(store, run_id)),
        has_result=asyncio.create_task(has_result()),
        timing_names=asyncio.create_task(store.list(f"{SUBSTEP_TIMING}/{run_id}")),
    )


async def read_run(
    query: str,
    env: str | None,
    patience: Seconds,
    *,
    when_known: Callable[[Run], None],
    note: Callable[[str], None],
) -> Found:
    """Find the run that the query means and read all that is shown of it.

    `when_known` hears of the run as soon as its record is there, `note` of what slowed the
    search. Raises ProgressError, or one of its kinds, where no run can be shown.
    """
    store = await _open_store(env, patience)
    rollouts_summary = asyncio.create_task(store.read(ROLLOUTS_SUMMARY, bytes))
    gaps = _Gaps()
    try:
        run, stale, asked = await _find(store, query, gaps, note)
        when_known(run)
        app_state = asyncio.create_task(_read_app(run.app_id, env)) if run.app_id else None
        rollouts, has_result, timings = await asyncio.gather(
            _read_rollouts(store, run, rollouts_summary, gaps),
            gaps.otherwise(asked.has_result, default=False),
            _read_timings(store, run, asked, gaps),
        )
        app = await _await_app(app_state) if app_state else None
    finally:
        rollouts_summary.cancel()
    failures = [*gaps.seen, *([f"the app's state: {app.unknown}"] if app and app.unknown else [])]
    return Found(
        run=replace(run, timings=timings),
        app=app,
        rollouts=rollouts,
        has_result=has_result,
        stale=stale,
        failures=tuple(([f"the record: {stale}"] if stale else []) + failures),
    )


class _Gaps:
    """Collects the calls that failed while the rest goes on."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def add(self, error: ReadError) -> None:
        """Note a failed call; a broken cache is none, since what it held is read elsewhere."""
        if not isinstance(error, BadFileError):
            self.seen.append(f"{error.what}: {error.why}")

    async def otherwise(self, reading: Awaitable[T], *, default: T) -> T:
        """The answer, or the default with the failure noted."""
        try:
            return await reading
        except ReadError as error:
            self.add(error)
            return default


async def _find(
    store: Store, query: str, gaps: _Gaps, note: Callable[[str], None]
) -> tuple[Run, str | None, Asked]:
    """The run, why it had to be taken from the summary if so, and what was asked about it."""
    guess = full_run_id(query)
    asked = _ask(store, guess) if guess else None
    if asked:
        with contextlib.suppress(ReadError):
            return await asked.record, None, asked
    index = await _read_index(store, gaps, note)
    run_id = await _choose(store, query, index)
    if asked is None or run_id != guess:
        asked = _ask(store, run_id)
    try:
        return await asked.record, None, asked
    except ReadError as error:
        row = index.rows.get(run_id)
        if row is None:
            raise
        return parse_run(row.record, run_id), error.why, asked


@dataclass(frozen=True)
class Index:
    """Every run that is known: rows of the summary, and when each record was written."""

    rows: dict[str, Row]
    written: dict[str, int]

    @property
    def run_ids(self) -> Collection[str]:
        """Every id, with a row or without."""
        return self.rows.keys() | self.written.keys()

    def newest_first(self, run_ids: Iterable[str]) -> list[str]:
        """The ids by when the run was created, or where that is unknown, last written."""

        def age(run_id: str) -> tuple[float, str]:
            row = self.rows.get(run_id)
            created = row.created_at if row else None
            return -(created or self.written.get(run_id, 0)), run_id

        return sorted(run_ids, key=age)


async def _read_index(store: Store, gaps: _Gaps, note: Callable[[str], None]) -> Index:
    """The runs summary and the folder of records, since the summary loses rows."""
    rows: dict[str, Row] = {}
    written: dict[str, int] = {}
    listing = asyncio.create_task(store.list(RUNS))
    try:
        rows = {row.run_id: row for row in parse_rows(await store.read(RUNS_SUMMARY, parse_json))}
        readable = True
    except ReadError as error:
        readable = False
        gaps.add(error)
        note(f"the runs summary is unreadable ({error.why}): the records themselves are searched")
    for name, mtime in (await gaps.otherwise(listing, default=written)).items():
        run_id = name.removesuffix(".json")
        if name != run_id and RUN_ID.fullmatch(run_id):
            written[run_id] = mtime
    missing = len(written.keys() - rows.keys())
    if readable and missing:
        note(f"the runs summary is incomplete: {missing} of {len(written)} runs have no row")
    return Index(rows, written)


async def _choose(store: Store, query: str, index: Index) -> str:
    """The one run id that the query means; NoMatchError or SeveralMatchError otherwise."""
    matched = match_runs(query, index.rows.values(), index.run_ids)
    if not matched:
        matched = await _match_in_records(store, query, index)
    if len(matched) == 1:
        return matched[0]
    shown = f"'{clean(query)[:QUERY_LIMIT]}{'…' if len(query) > QUERY_LIMIT else ''}'"
    if not matched:
        near = nearest_runs(query, index.run_ids)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "is it in another environment (-e)?"
        )
        raise NoMatchError(f"no run matches {shown}: {hint}")
    newest = index.newest_first(matched)
    runs = await _read_candidates(store, newest[:CANDIDATES_SHOWN], index)
    raise SeveralMatchError(
        f"{len(matched)} runs match {shown}: give more of the id, or the app id",
        runs,
        more=len(matched) - len(runs),
    )


async def _match_in_records(store: Store, query: str, index: Index) -> tuple[str, ...]:
    """Look for an app id or a W&B id in the records that have no row, newest first."""
    unread = index.newest_first(index.written.keys() - index.rows.keys())
    for start in range(0, len(unread), RECORDS_AT_ONCE):
        batch = unread[start : start + RECORDS_AT_ONCE]
        rows = await asyncio.gather(*(_read_row(store, run_id) for run_id in batch))
        matched = match_runs(query, [row for row in rows if row], ())
        if matched:
            return matched
    return ()


async def _read_row(store: Store, run_id: str) -> Row | None:
    try:
        return parse_row(await store.read(f"{RUNS}/{run_id}.json", parse_json), run_id)
    except ReadError:
        return None


async def _read_candidates(store: Store, run_ids: Sequence[str], index: Index) -> tuple[Run, ...]:
    async def candidate(run_id: str) -> Run:
        row = index.rows.get(run_id) or await _read_row(store, run_id)
        return parse_run(row.record if row else None, run_id)

    return tuple(await asyncio.gather(*map(candidate, run_ids)))


async def _read_rollouts(
    store: Store, run: Run, summary: Awaitable[bytes], gaps: _Gaps
) -> Rollouts:
    """The run's rollouts; where the summary is known to be short, counted by their files."""
    try:
        rollouts = parse_rollouts(await summary, run.run_id)
        fault = _lack_of(rollouts, run)
    except (ReadError, ValueError) as error:
        if isinstance(error, ReadError):
            gaps.add(error)
        why = error.why if isinstance(error, ReadError) else str(error)
        rollouts, fault = (), f"the rollouts summary can't be read: {why}"
    latest_id = rollouts[-1].rollout_id if rollouts else None
    if fault is None:
        return Rollouts(len(rollouts), latest_id, rollouts)
    nothing: dict[str, int] = {}
    names = await gaps.otherwise(store.list(ROLLOUTS), default=nothing)
    ids = parse_rollout_ids(names, run.run_id) | {rollout.rollout_id for rollout in rollouts}
    known = {rollout.rollout_id: rollout for rollout in rollouts}
    if run.latest_rollout and run.latest_rollout.rollout_id not in known:
        known[run.latest_rollout.rollout_id] = run.latest_rollout
    return Rollouts(
        recorded=len(ids) if names or rollouts else None,
        latest_id=max(ids, default=None),
        rollouts=tuple(known.get(rollout_id, Rollout(rollout_id)) for rollout_id in sorted(ids)),
        incomplete=fault,
    )


def _lack_of(rollouts: Sequence[Rollout], run: Run) -> str | None:
    """Why the summary is known to lack rows of this run, if it is."""
    last = rollouts[-1].rollout_id if rollouts else -1
    if run.latest_rollout_id is not None and run.latest_rollout_id > last:
        return f"the rollouts summary lacks rows up to rollout_id {run.latest_rollout_id}"
    if not rollouts and run.step and run.step.current > 1:
        return f"the rollouts summary has no row of this run, which is at step {run.step.current}"
    return None


async def _read_timings(store: Store, run: Run, asked: Asked, gaps: _Gaps) -> Timings | None:
    """The record's own timings, else those of the newest timing files."""
    if run.timings:
        return run.timings
    no_files: dict[str, int] = {}
    names = await gaps.otherwise(asked.timing_names, default=no_files)
    files = files_of_newest_steps(parse_timing_names(names), TIMED_STEPS)
    nothing: object = None
    records = await asyncio.gather(
        *(
            gaps.otherwise(
                store.read(f"{SUBSTEP_TIMING}/{run.run_id}/{file.name}", parse_json),
                default=nothing,
            )
            for file in files
        )
    )
    return parse_substep_timings(dict(zip(files, records, strict=True)))


async def _await_app(state: asyncio.Task[App]) -> App:
    done, _ = await asyncio.wait({state}, timeout=APP_PATIENCE)
    if done:
        return state.result()
    state.cancel()
    return App(live=None, unknown=f"no answer within {APP_PATIENCE:.0f} s")


async def _read_app(app_id: str, env: str | None) -> App:
    import modal

    try:
        app = await modal.App.lookup.aio(app_id, environment_name=env)
        lifecycle = (await app.info.aio()).lifecycle
    except modal.exception.InvalidError:
        return await _read_app_list(app_id, env)  # modal before 1.6.4 takes no id there
    except _faults() as fault:
        return App(live=None, unknown=_words(fault))
    stopped = lifecycle.stopped_at
    return App(
        live=lifecycle.state.value in LIVE_STATES,
        state=lifecycle.state.value,
        stopped_at=stopped.timestamp() if stopped else None,
        stopped_by=clean(lifecycle.stopped_by or "") or None,
    )


async def _read_app_list(app_id: str, env: str | None) -> App:
    """The app's state from this interpreter's own `modal app list`."""
    child = await asyncio.create_subprocess_exec(
        *modal_command("app", "list", "--json", env=env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=child_environment(),
    )
    try:
        out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode:
        return App(live=None, unknown=error_line(err))
    try:
        return parse_app_list(parse_json(out), app_id)
    except ValueError as error:
        return App(live=None, unknown=f"modal app list: {error}")


# ======================================================================================
# Judging: what is true of the run. Pure: `now` is an argument, nothing here reads a clock.
# ======================================================================================

# Seconds without a sign of life after which a live run is possibly stuck: the skill's ten minutes.
STUCK_AFTER = 600.0
Level: TypeAlias = Literal["plain", "good", "warn", "bad", "dim"]


@dataclass(frozen=True)
class Judgement:
    """What is true of the run now; `idle` is the time since its newest sign of life."""

    updated_at: EpochSeconds | None
    idle: Seconds | None
    condition: Literal["stuck", "died", "finished"] | None


def judge(found: Found, now: EpochSeconds) -> Judgement:
    """Judge a run from all that was read of it. A time in the future counts as now."""
    sign = _newest((found.run.last_sign, found.rollouts.newest_at))
    idle = None if sign is None else max(0.0, now - sign)
    return Judgement(
        updated_at=found.run.started_at if sign is None else sign,
        idle=idle,
        condition=_condition(found, idle),
    )


def _condition(found: Found, idle: Seconds | None) -> Literal["stuck", "died", "finished"] | None:
    if (found.run.status or "").casefold() != "running" or found.app is None:
        return None
    if found.app.live is False:
        return "finished" if found.has_result else "died"
    if found.app.live and idle is not None and idle > STUCK_AFTER:
        return "stuck"
    return None


# ======================================================================================
# Showing: rich renderables from the judged facts. No decisions here, and nothing prints
# but `show`.
# ======================================================================================

STYLES: dict[Level, str] = {
    "plain": "",
    "good": "green",
    "warn": "bold yellow",
    "bad": "bold red",
    "dim": "dim",
}
STATUS_LEVELS: dict[str, Level] = {
    "running": "good",
    "completed": "good",
    "failed": "bad",
    "stopped": "warn",
    "cancelled": "warn",
}
LABEL_WIDTH = 9
# Columns of a pipe: wider than any line, so that nothing is wrapped or cut there.
PIPE_WIDTH = 1_000_000
# Columns below which a window is left to wrap by itself: there is no room for labels and values.
NARROW = 50
LAST_ROLLOUTS = 5


# ---- Secrets: training logs print their environment, and a screen or a chat is no place for it.

# A credential must not follow a word's character; a colour code before it is none.
_START = r"(?:(?<![\w-])|(?<=\dm)|(?<=\[m))"
_COLOUR = r"(?:\x1b\[[0-9;]*m)*"
_TOKEN = re.compile(
    rf"{_START}(?P<before>(?i:bearer)\s+{_COLOUR}(?=[\w.~+/=-]*\d))?"
    r"(?P<token>(?(before)[\w.~+/=-]{16,}"
    r"|(?:(?:ak|as|wk|ws)-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{30,}|sk-[\w-]{20,}"
    r"|ghp_[A-Za-z0-9]{16,}|github_pat_\w{16,})))",
    re.ASCII,
)
_ASSIGNED = re.compile(
    r"(?P<before>(?i:(?:api_?key|secret|password|(?:access|auth|status)_token"
    r"|(?:hf|hub|hugging_?face|wandb|git(?:hub|lab)|gh|openai|anthropic|slack|pypi)_token))"
    rf"\\?[\"']?\]?{_COLOUR}\s*(?::\s*[A-Za-z]+\s*(?==))?[=:]\s*{_COLOUR})"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\s\"'\\\x1b]{16,}+)(?=(?P=quote))"
    r"|(?P<bare>[^\s\"'\\\x1b,;&)}\]]{16,}+)(?![\"']))"
)
# Words without which a line holds no credential: looking for them is much faster than for those.
_TRACES = (
    "ak-", "as-", "wk-", "ws-", "sk-", "hf_", "ghp_", "github_pat_", "bearer",
    "key", "secret", "password", "_token",
)  # fmt: skip
_CODE_OR_PATH = re.compile(r"[(\[]|os\.environ|^\$|^(?:~|\.{1,2})?/|^\w+://|/.*\.[A-Za-z]\w{0,4}$")
SECRET_SHOWN = 4


def keep_text(text: str) -> str:
    """The text as it is: what --show-secrets asks for."""
    return text


def mask_secrets(text: str) -> str:
    """Show each credential in the text as its first four characters and `…`."""
    return "".join(map(_mask_line, text.splitlines(keepends=True)))


def mask_secrets_in_bytes(text: bytes) -> bytes:
    """The same for log output, all else byte for byte as it came."""
    masked = mask_secrets(text.decode(errors="surrogateescape"))
    return masked.encode(errors="surrogateescape")


def _mask_line(line: str) -> str:
    lowered = line.casefold()
    if not any(trace in lowered for trace in _TRACES):
        return line
    return _ASSIGNED.sub(_mask_assigned, _TOKEN.sub(_mask_token, line))


def _mask_token(match: re.Match[str]) -> str:
    return f"{match['before'] or ''}{match['token'][:SECRET_SHOWN]}…"


def _mask_assigned(match: re.Match[str]) -> str:
    value = match["quoted"] or match["bare"]
    if _CODE_OR_PATH.search(value):
        return match[0]
    return f"{match['before']}{match['quote'] or ''}{value[:SECRET_SHOWN]}…"


def guarded(value: T, guard: Callable[[str], str]) -> T:
    """The same value with every text in it guarded, however deep in tuples and dataclasses."""
    guarded_value: object = value
    if isinstance(value, str):
        guarded_value = guard(value)
    elif isinstance(value, tuple):
        guarded_value = tuple(guarded(item, guard) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in fields(value))
        guarded_value = replace(
            value, **{name: guarded(getattr(value, name), guard) for name in names}
        )
    return cast("T", guarded_value)


def duration_text(seconds: Seconds) -> str:
    """A measured time: `12s`, `3m 50s`, `2h 41m`, `3d 4h`."""
    if 0 < seconds < 0.5:  # noqa: PLR2004 - what would round to none
        return "<1s"
    whole = round(seconds)
    return f"{whole // 60}m {whole % 60}s" if 60 <= whole < 3600 else age_text(whole)  # noqa: PLR2004


def age_text(seconds: Seconds) -> str:
    """How long ago: `34s`, `22m`, `2h 24m`, `3d 4h`."""
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole}s"
    if not hours:
        return f"{minutes}m"
    if not days:
        return f"{hours}h {minutes % 60}m"
    return f"{days}d {hours % 24}h"


def moment_text(moment: EpochSeconds, now: EpochSeconds) -> str:
    """`2026-11-29 12:01:03 UTC (2h 24m ago)`."""
    written = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{written} ({age_text(max(0.0, now - moment))} ago)"


def step_text(step: Step | None) -> str:
    """`12/50`, `7` where the total is unknown."""
    if step is None:
        return "unknown"
    shown = f"{step.current}/{step.total}" if step.total else str(step.current)
    return shown if step.unit == "step" else f"{shown} ({step.unit})"


def stopped_text(app: App, now: EpochSeconds) -> str:
    """`stopped 14m ago by NAME`, `stopping`, `disabled`."""
    ago = f" {age_text(max(0.0, now - app.stopped_at))} ago" if app.stopped_at else ""
    by = f" by {app.stopped_by}" if app.stopped_by else ""
    return f"{app.state or 'stopped'}{ago}{by}"


def app_text(run: Run, app: App | None, now: EpochSeconds) -> tuple[str, Level]:
    """The app's id and whether it is live."""
    if run.app_id_malformed:
        return "unknown (malformed app id)", "warn"
    if app is None:
        if run.ended:
            return "none: the run ended before it had one, so there are no logs", "plain"
        return "none yet: the run is still queuing or in early setup, so there are no logs", "plain"
    if app.live is None:
        return f"{run.app_id} · unknown ({app.unknown})", "warn"
    if app.live:
        return f"{run.app_id} · live ({app.state})", "good"
    return f"{run.app_id} · not live ({stopped_text(app, now)})", "plain"


def timings_text(timings: Timings) -> str:
    """`step 11: generate_rollouts 3m 50s · … · total 4m 37s`."""
    parts = [f"{phase} {duration_text(seconds)}" for phase, seconds in timings.phases]
    if timings.total is not None:
        parts.append(f"total {duration_text(timings.total)}")
    return f"step {timings.step}: {' · '.join(parts)}"


def attempt_text(run: Run) -> str | None:
    """`3 (resumed from iter_0000019)`; None for a first attempt from scratch."""
    if run.resumed_from:
        return f"{run.attempt or 'unknown'} (resumed from {run.resumed_from})"
    return str(run.attempt) if run.attempt and run.attempt > 1 else None


def field(label: str, text: str, level: Level = "plain") -> RenderableType:
    """One labelled line, its further lines under the value."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=LABEL_WIDTH, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(label, "dim"), Text(text, STYLES[level]))
    return indented(line)


def indented(block: RenderableType) -> RenderableType:
    """The two columns by which every line under a heading is set in."""
    from rich.padding import Padding

    return Padding(block, (0, 0, 0, 2), expand=False)


def heading(text: str) -> RenderableType:
    """The first line of a block."""
    from rich.text import Text

    return Text(text, "bold cyan")


def hint(text: str, level: Level) -> RenderableType:
    """A line that must not be overlooked."""
    from rich.text import Text

    return indented(Text(text, STYLES[level]))


def step_field(step: Step | None, *, bar: bool) -> RenderableType:
    """The step, on a terminal with a bar."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    if not bar or step is None or not step.total:
        return field("step", step_text(step))
    done = min(max(step.current - 1, 0), step.total)
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=LABEL_WIDTH, no_wrap=True)
    line.add_row(
        Text("step", "dim"),
        Text(step_text(step), "bold"),
        ProgressBar(total=step.total, completed=done, width=24),
        Text(f"{100 * done // step.total}% done", "dim"),
    )
    return indented(line)


def progress_block(
    found: Found, judged: Judgement, now: EpochSeconds, *, bar: bool
) -> list[RenderableType]:
    """The Progress block, line by line."""
    run = found.run
    phase = run.phase or "unknown"
    app, app_level = app_text(run, found.app, now)
    status_level = STATUS_LEVELS.get((run.status or "").casefold(), "plain")
    lines: list[RenderableType] = [heading("Progress"), field("run", run.run_id)]
    if found.stale:
        stale = f"the record could not be read ({found.stale}): this is its row in the runs summary"
        lines.append(field("source", f"{stale}, which may lag", "warn"))
    if run.framework:
        lines.append(field("framework", run.framework))
    lines.append(field("status", run.status or "unknown", status_level))
    waiting = " (waiting for a GPU)" if run.waiting_for_gpu else ""
    lines.append(field("phase", f"{phase}{waiting}", "warn" if waiting else "plain"))
    lines.append(step_field(run.step, bar=bar))
    if attempt := attempt_text(run):
        lines.append(field("attempt", attempt))
    lines.append(field("app", app, app_level))
    if run.url:
        lines.append(field("url", run.url))
    moments = (
        ("created", run.created_at),
        ("started", run.started_at),
        ("updated", judged.updated_at),
        ("ended", run.ended_at if run.ended else None),
    )
    lines += [field(label, moment_text(moment, now)) for label, moment in moments if moment]
    if run.ended and run.reason:
        lines.append(field("reason", run.reason))
    if run.ended and run.error:
        further = (f"│ {line}" for line in run.error[1:])
        lines.append(field("error", "\n".join((run.error[0], *further)), "bad"))
    if run.timings:
        lines.append(field("timings", timings_text(run.timings)))
    lines += condition_hint(found.app, judged, now)
    return lines


def condition_hint(app: App | None, judged: Judgement, now: EpochSeconds) -> list[RenderableType]:
    """The line that says that the run is not simply running, if it isn't."""
    if judged.condition == "stuck":
        quiet = age_text(judged.idle or 0)
        text = f"the app is live but the run has recorded nothing for {quiet}"
        return [hint(f"⚠ POSSIBLY STUCK: {text}", "warn")]
    if judged.condition == "died" and app:
        # "stopped 14m ago by NAME" as a clause; who stopped it stands in the app line.
        how = stopped_text(replace(app, stopped_by=None), now)
        verb = "" if app.state in ("", "stopped") else "is "
        text = f"status says running, but the app {verb}{how}; the last log lines hold the cause"
        return [hint(f"✗ APP DIED: {text}", "bad")]
    if judged.condition == "finished":
        text = "a train result is recorded; the status has not caught up"
        return [hint(f"✓ finished: {text}", "good")]
    return []


def rollouts_block(rollouts: Rollouts) -> list[RenderableType]:
    """The Rollouts block: how many, the latest, the last five."""
    lines: list[RenderableType] = [heading("Rollouts")]
    recorded = "unknown" if rollouts.recorded is None else str(rollouts.recorded)
    lines.append(field("recorded", recorded))
    if rollouts.latest_id is not None:
        step = f"step {rollouts.latest_id + 1}, the latest completed step"
        lines.append(field("latest", f"rollout_id {rollouts.latest_id} ({step})"))
    if rollouts.incomplete:
        lines.append(field("note", f"figures are incomplete: {rollouts.incomplete}", "warn"))
    if rollouts.rollouts:
        lines.append(indented(rollouts_table(rollouts.rollouts[-LAST_ROLLOUTS:])))
    return lines


def rollouts_table(rollouts: Sequence[Rollout]) -> RenderableType:
    """One row a rollout."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title, width in (("rollout_id", 10), ("samples", 7), ("mean reward", 11), ("time", 8)):
        table.add_column(title, justify="right", min_width=width)
    if any(rollout.trouble for rollout in rollouts):
        table.add_column("errors", overflow="fold")
    for rollout in rollouts:
        trouble = [Text(rollout.trouble, STYLES["bad"])] if rollout.trouble else []
        table.add_row(
            str(rollout.rollout_id),
            _or_dash(rollout.samples, "{}"),
            _or_dash(rollout.mean_reward, "{:.4f}"),
            "–" if rollout.seconds is None else duration_text(rollout.seconds),
            *trouble,
        )
    return table


def _or_dash(number: float | None, form: str) -> str:
    if number is None:
        return "–"
    shown = form.format(number)
    return shown if len(shown) <= 11 else f"{number:.4g}"  # noqa: PLR2004 - the column's width


def candidates_block(runs: Sequence[Run], more: int, now: EpochSeconds) -> list[RenderableType]:
    """The runs that a query may mean, newest first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("run", "status", "phase", "step", "age", "app"):
        table.add_column(title)
    for run in runs:
        table.add_row(
            *map(
                Text,
                (
                    run.run_id,
                    run.status or "unknown",
                    run.phase or "unknown",
                    step_text(run.step),
                    age_text(max(0.0, now - run.created_at)) if run.created_at else "–",
                    run.app_id or "–",
                ),
            )
        )
    lines: list[RenderableType] = [heading("Candidates"), indented(table)]
    if more:
        lines.append(hint(f"and {more} more", "dim"))
    return lines


def open_console(stream: Literal["stdout", "stderr"]) -> Console:
    """A console that wraps to a terminal's window, and never wraps or colours a pipe.

    NO_COLOR and FORCE_COLOR are rich's to obey.
    """
    from rich.console import Console

    file = getattr(sys, stream)
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if not file.isatty() or console.width < NARROW:
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
# Logs: the `modal app logs` subprocess. It runs while the blocks are made, its output
# passes through as it comes, and it never outlives this process.
# ======================================================================================


# Seconds for which the beginning of a line is held back for the rest of it, so that a credential
# is never cut in two: too short to be noticed, and long enough for a pipe.
LINE_PATIENCE = 0.2
# What the child runs. It imports modal's CLI while this process still looks for the run, waits for
# the command on its standard input, and runs it as `python -m modal` does. A thread ends it when
# that input closes, so that it can't outlive this process however that one ends, SIGKILL included.
CHILD = """
import contextlib, json, os, runpy, sys, threading
with contextlib.suppress(ImportError):
    import modal.cli.entry_point
words = json.loads(sys.stdin.readline() or "null")
if words is None:
    sys.exit()
def outlived():
    while os.read(0, 1):
        pass
    os._exit(1)
threading.Thread(target=outlived, daemon=True).start()
sys.argv = ["modal", *words]
runpy.run_module("modal", run_name="__main__", alter_sys=True)
"""


def modal_command(*words: str, env: str | None) -> list[str]:
    """A command of this interpreter's own modal: one on the PATH may be another project's.

    -P keeps a `modal` folder in the working directory from being taken for the package.
    """
    return [sys.executable, "-P", "-m", "modal", *words, *(["-e", env] if env else [])]


def child_environment() -> dict[str, str]:
    """The environment for modal's CLI: times in UTC, and no colour codes before them."""
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    encoding = kept.get("PYTHONIOENCODING", "").partition(":")[0]
    return {**kept, "TZ": "UTC", "PYTHONIOENCODING": f"{encoding}:replace"}


def error_line(stderr: bytes) -> str:
    """What the CLI's stderr says went wrong: an `Error: …` line, or before modal 1.6 a box."""
    lines = [clean(line).strip() for line in stderr.decode(errors="replace").splitlines()]
    told = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    boxed = " ".join(line.strip("│ ") for line in lines if line.startswith("│"))
    if told or boxed:
        return (told[-1] if told else boxed)[:FIELD_LIMIT]
    return next((line for line in reversed(lines) if line), "it said nothing")[:FIELD_LIMIT]


class Logs:
    """An interpreter on its way to `modal app logs`; `end` it on every way out."""

    def __init__(self) -> None:
        """Start it: importing takes it longer than finding the run takes."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        # Its own session: Ctrl-C reaches this process alone, which then ends the child.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD, "modal", "app", "logs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=child_environment(),
            start_new_session=True,
        )

    def ask(self, words: Sequence[str]) -> None:
        """Tell it what to run."""
        if self._child.stdin:
            with contextlib.suppress(BrokenPipeError):  # then its stderr says why
                self._child.stdin.write(json.dumps(words).encode() + b"\n")
                self._child.stdin.flush()

    def lines(self, patience: Seconds | None) -> Iterator[bytes]:
        """The output as it comes, in whole lines, until it ends.

        Raises ProgressError if modal failed, or took longer than `patience`, None for ever.
        """
        begun = b""
        for chunk in self._chunks(patience):
            whole, newline, begun_now = (begun + chunk).rpartition(b"\n")
            if newline:
                yield whole + newline
            elif not chunk:
                yield begun
                begun_now = b""
            begun = begun_now
        if begun:
            yield begun
        status = self._child.wait()
        self._stderr.seek(0)
        told = self._stderr.read()
        if status:
            raise ProgressError(f"modal app logs failed: {error_line(told)}")

    def _chunks(self, patience: Seconds | None) -> Iterator[bytes]:
        """Pieces of the output; an empty one where a line stays unfinished."""
        if self._child.stdout is None:
            return
        pipe = self._child.stdout.fileno()
        deadline = None if patience is None else time.monotonic() + patience
        unfinished = False
        while True:
            wait = LINE_PATIENCE if unfinished else None
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic())
                wait = left if wait is None else min(wait, left)
            if select.select([pipe], [], [], wait)[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    return
                unfinished = not chunk.endswith(b"\n")
                yield chunk
            elif unfinished:
                unfinished = False
                yield b""
            else:
                raise ProgressError(f"modal app logs did not end within {patience:g} s")

    def end(self) -> None:
        """End the child, however far it is."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


# ======================================================================================
# main: arguments, the order of the blocks, errors to exit statuses. The only clock, and
# the only hold on the terminal.
# ======================================================================================

# Log entries; the limit is that of `modal app logs`.
TAIL_DEFAULT, TAIL_LIMIT = 200, 20_000
# Seconds; the SDK itself gives up on a server that can't be reached after 57.
TIMEOUT_DEFAULT, TIMEOUT_LIMIT = 60.0, 86_400
INTERRUPTED = 130


@dataclass(frozen=True)
class Arguments:
    """The command line, judged."""

    query: str
    tail: int
    logs: Literal["tail", "follow", "none"]
    env: str | None
    timeout: Seconds
    show_secrets: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"error: {clean(message)}; see {self.prog} --help\n")
        sys.exit(2)

    def format_help(self) -> str:
        return f"{__doc__}"


def _tail(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= TAIL_LIMIT:
        raise argparse.ArgumentTypeError(f"N must be a number from 1 to {TAIL_LIMIT:,}")
    return int(text)


def _seconds(text: str) -> Seconds:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= TIMEOUT_LIMIT:
        raise argparse.ArgumentTypeError(f"S must be seconds, more than 0, up to {TIMEOUT_LIMIT:,}")
    return seconds


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Judge the command line before any reading; exits with status 2 where it is wrong."""
    parser = _Parser(prog="run_progress.py", allow_abbrev=False)
    parser.add_argument("run", metavar="RUN")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-n", "--tail", type=_tail, metavar="N")
    output.add_argument("--no-logs", action="store_true")
    output.add_argument("-f", "--follow", action="store_true")
    parser.add_argument("-e", "--env", metavar="ENV")
    parser.add_argument("--show-secrets", action="store_true")
    parser.add_argument("--timeout", type=_seconds, metavar="S", default=TIMEOUT_DEFAULT)
    given = parser.parse_args(words)
    query = read_query(given.run)
    if not query:
        parser.error("RUN is empty: give an id or a part of one")
    return Arguments(
        query=query,
        tail=given.tail or TAIL_DEFAULT,
        logs="none" if given.no_logs else "follow" if given.follow else "tail",
        env=given.env or None,
        timeout=given.timeout,
        show_secrets=given.show_secrets,
    )


def logs_words(arguments: Arguments, app_id: str, app: App | None) -> list[str]:
    """The words of `modal app logs`: only an app that may be live can be followed."""
    follow = arguments.logs == "follow" and app is not None and app.live is not False
    output = ["-f"] if follow else ["--tail", str(arguments.tail)]
    env = ["-e", arguments.env] if arguments.env else []
    return ["app", "logs", app_id, *output, "--timestamps", *env]


def show_run(arguments: Arguments) -> int:
    """Read the run, show its blocks and its logs; the exit status."""
    guard = keep_text if arguments.show_secrets else mask_secrets
    with contextlib.ExitStack() as ending:
        logs = Logs() if arguments.logs != "none" else None
        if logs:
            ending.callback(logs.end)
        require_modal()
        out, err = open_console("stdout"), open_console("stderr")

        def when_known(run: Run) -> None:
            if logs and run.app_id and arguments.logs == "tail":
                logs.ask(logs_words(arguments, run.app_id, None))

        def note(text: str) -> None:
            err.print(f"note: {guard(text)}", style="dim")

        spinner = err.status("reading the run from Modal") if sys.stderr.isatty() else None
        with spinner or contextlib.nullcontext():
            reading = read_run(
                arguments.query,
                arguments.env,
                arguments.timeout,
                when_known=when_known,
                note=note,
            )
            found = guarded(asyncio.run(reading), guard)
        now = time.time()
        bar = out.width < PIPE_WIDTH
        show(out, progress_block(found, judge(found, now), now, bar=bar))
        show(out, ["", *rollouts_block(found.rollouts)])
        failures = list(found.failures)
        if logs:
            show(out, [""])
            failures += show_logs(arguments, found, logs, out)
    sys.stdout.flush()
    for failure in failures:
        complain(f"could not read {failure}")
    return 1 if failures else 0


def show_logs(arguments: Arguments, found: Found, logs: Logs, out: Console) -> list[str]:
    """The Logs block: the log command's output, guarded; what failed, if it did."""
    run = found.run
    if run.app_id is None:
        why = "the app id is malformed" if run.app_id_malformed else "no app yet"
        show(out, [heading(f"Logs: none, {why}")])
        return []
    words = logs_words(arguments, run.app_id, found.app)
    follow = "-f" in words
    if arguments.logs == "follow":
        logs.ask(words)
        if not follow:
            show(out, [hint("the app is not live: the end of its logs instead", "warn")])
    show(out, [heading(f"Logs: modal {' '.join(words)}")])
    try:
        for lines in logs.lines(None if follow else arguments.timeout):
            guarded_lines = lines if arguments.show_secrets else mask_secrets_in_bytes(lines)
            sys.stdout.buffer.write(guarded_lines)
            sys.stdout.buffer.flush()
    except ProgressError as error:
        return [f"the logs: {error if arguments.show_secrets else mask_secrets(str(error))}"]
    return []


def complain(message: str) -> None:
    """One error line on stderr, after all that stdout holds."""
    sys.stdout.flush()
    sys.stderr.write(f"error: {message}\n")
    sys.stderr.flush()


def main() -> int:
    """Run the command; errors become one line and an exit status, never a traceback."""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        prepare_streams()
        return show_run(parse_arguments(sys.argv[1:]))
    except SeveralMatchError as error:
        console = open_console("stdout")
        console.width = PIPE_WIDTH  # ids are there to be copied: rows are never folded
        candidates = guarded(error.candidates, mask_secrets)
        show(console, candidates_block(candidates, error.more, time.time()))
        complain(mask_secrets(str(error)))
        return error.status
    except ProgressError as error:
        complain(mask_secrets(str(error)))
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has what it wanted
        abandon_stdout()
        return 0
    except OSError as error:
        abandon_stdout()
        complain(mask_secrets(str(error)))
        return 1


def prepare_streams() -> None:
    """Keep what a stream can't hold, and what is not meant for the user, from showing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # A read that was given up leaves futures and generators in the SDK that nobody awaits.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


def abandon_stdout() -> None:
    """Let what is still buffered go nowhere, so that Python's own last flush can't fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    # Straight out: the SDK's own clean-up at exit takes a while, and Ctrl-C in it shows.
    exit_status = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(exit_status)
