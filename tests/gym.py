"""A small training gym, as of a given moment: what its volume holds and what its apps wrote.

One function a run, in the order of the list at the end. Each says only what sets its run apart;
the builders above them fill in what all runs have in common. Nothing here is random.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local_modal import LocalApp, LocalCall, LocalFunction, LocalSeries, LogEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from local_modal import LocalModal

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


@dataclass(frozen=True)
class SampleRun:
    """One run of the gym: what is true of it, and all its traces."""

    run_id: str
    about: str
    verdict: str
    record: dict[str, Any]
    app: LocalApp | None = None
    rollouts: Sequence[dict[str, Any]] = ()  # rows of the rollouts summary
    files: Mapping[str, bytes] = field(default_factory=dict)  # of kinds that few runs have

    def in_app(self, **changes: Any) -> SampleRun:
        """The same run, but for its app."""
        assert self.app
        return replace(self, app=replace(self.app, **changes))

    def trained_by(self, **changes: Any) -> SampleRun:
        """The same run, but for its app's training function."""
        assert self.app
        *others, train = self.app.functions
        return self.in_app(functions=[*others, replace(train, **changes)])

    def stopped(self, at: float, call: str, by: str = "") -> SampleRun:
        """The same run, its app over since `at`, its call as Modal's status `call` says."""
        began = self.record["created_at"] + 60
        run = self.in_app(state="stopped", stopped_at=at, stopped_by=by, tasks=0)
        return run.trained_by(containers=0, calls=[LocalCall(call, began, at - began)])


@dataclass(frozen=True)
class Gym:
    """Everything Modal knows of the sample runs."""

    runs: tuple[SampleRun, ...]
    files: dict[str, bytes]

    @property
    def apps(self) -> list[LocalApp]:
        """The apps of those runs that have one."""
        return [run.app for run in self.runs if run.app]

    def install(self, server: LocalModal) -> None:
        """Put copies of the files and apps into a server, so that a test may change them."""
        server.files.update(self.files)
        for app in self.apps:
            functions = [replace(function) for function in app.functions]
            server.add_app(replace(app, logs=list(app.logs), functions=functions))


# ---- The training loop: when each phase of each step ran, and what it recorded ------------------

PLAIN_STEP = {
    "generate_rollouts": 0.905,
    "compute_log_probs": 0.027,
    "optimizer_step": 0.052,
    "weight_sync": 0.016,
}
SAVING_STEP = {
    "generate_rollouts": 0.70,
    "compute_log_probs": 0.03,
    "optimizer_step": 0.06,
    "checkpoint_save": 0.19,
    "weight_sync": 0.02,
}


@dataclass(frozen=True)
class Span:
    """From when to when a phase ran."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long that was."""
        return round(self.end - self.start, 1)


@dataclass(frozen=True)
class Loop:
    """A training loop that has come as far as `phase` of `step`.

    Step n starts `pace` seconds after step n - 1, step 1 at `start`, though a loop that goes on
    from a checkpoint begins with its `first`. The mean reward starts near `reward` and rises by
    `rise` a step.
    """

    pace: float = 300.0
    reward: float = 0.2
    rise: float = 0.012
    start: float = 0.0
    first: int = 1
    step: int = 1
    phase: str = "generate_rollouts"
    shares: Mapping[str, float] = field(default_factory=lambda: PLAIN_STEP)

    def entering(self, phase: str, step: int, at: float) -> Loop:
        """The same loop, but moved in time so that it enters `phase` of `step` at `at`."""
        there = replace(self, phase=phase, step=step)
        return replace(there, start=round(self.start + at - there.since, 1))

    @property
    def since(self) -> float:
        """When it entered its phase; one that its steps do not have precedes all of them."""
        spans = self.phases(self.step)
        return spans[self.phase].start if self.phase in spans else self.start_of(self.step)

    @property
    def steps(self) -> range:
        """Those that have begun."""
        return range(self.first, self.step + 1)

    def start_of(self, step: int) -> float:
        """When the step starts, which is when the one before it ends."""
        return self.start + (step - 1) * self.pace

    def phases(self, step: int) -> dict[str, Span]:
        """The phases of a step, end to end. Generating takes a little more or less each time."""
        extra = (step * 5 % 7 - 3) * self.pace / 250
        seconds = {name: share * self.pace for name, share in self.shares.items()}
        seconds["generate_rollouts"] += extra
        seconds["optimizer_step"] -= extra
        spans: dict[str, Span] = {}
        at = self.start_of(step)
        for name, length in seconds.items():
            spans[name] = Span(round(at, 1), round(at + length, 1))
            at += length
        return spans

    def mean_of(self, step: int) -> float:
        """The mean reward of a step's rollout, which wavers a little as it rises."""
        return round(self.reward + self.rise * (step - 1) + (step % 3 - 2) * 0.004, 4)

    def rollouts(self, until: float) -> list[dict[str, Any]]:
        """The rows of its rollouts, each recorded when its generation was over."""
        generated = {step: self.phases(step)["generate_rollouts"] for step in self.steps}
        return [
            {
                "rollout_id": step - 1,
                "created_at": span.end,
                "total": 256,
                "mean": self.mean_of(step),
                "rollout_time": span.seconds,
            }
            for step, span in generated.items()
            if span.end <= until
        ]


def timings(loop: Loop, until: float) -> dict[str, Any]:
    """The older `step_times` and `substep_times`; what was not over at `until` has no length."""
    step_times, substep_times = {}, {}
    for step in loop.steps:
        known = until if step == loop.step else math.inf
        whole = Span(loop.start_of(step), loop.start_of(step + 1))
        step_times[str(step)] = {"start": whole.start, "duration_s": known_length(whole, known)}
        substep_times[str(step)] = {
            name: {"start": span.start, "duration_s": known_length(span, known)}
            for name, span in loop.phases(step).items()
            if span.start <= known
        }
    if loop.phase not in loop.shares:
        substep_times[str(loop.step)] = {loop.phase: {"start": loop.since, "duration_s": None}}
    return {"step_times": step_times, "substep_times": substep_times}


def known_length(span: Span, until: float) -> float | None:
    """How long it took, if it was over by then."""
    return span.seconds if span.end <= until else None


def substep_files(run_id: str, loop: Loop, until: float) -> dict[str, bytes]:
    """The newer `substep-timing` files of the driver, which hold what was over at `until`."""
    files: dict[str, bytes] = {}
    for step in loop.steps:
        start = loop.start_of(step)
        phases = {
            name: {"busy_duration_s": span.seconds, "first_start_s": round(span.start - start, 1)}
            for name, span in loop.phases(step).items()
            if span.end <= until
        }
        record = {"lane_start_unix_s": start, "final": step != loop.step, "phases": phases}
        files[f"substep-timing/{run_id}/{step - 1:08d}__driver.json"] = to_json(record)
    return files


def to_json(content: object) -> bytes:
    """A file of the volume. NaN is written bare, as the gym does."""
    return json.dumps(content).encode()


# ---- Logs: what slime, Megatron, SGLang and Ray write -------------------------------------------

ROLLOUT = "(RolloutManager pid=1188) "
TRAIN = "(MegatronTrainRayActor pid=2071) "
ENGINE = "(SGLangEngine pid=1400) "
DRIVER = ""

LOGGED_STEPS = 8  # those before are left out: 200 entries are shown where no more are asked for

SETUP = f"""\
Training run id: {{run_id}}
Fetching 14 files: 100%|██████████| 14/14 [00:41<00:00,  2.96s/it]
{TRAIN}loading distributed checkpoint from /root/models/Qwen3-4B_torch_dist at iteration 0
{ROLLOUT}Launch router at 10.0.0.4:3512
{ENGINE}Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=74.71 GB
{ENGINE}The server is fired up and ready to roll!
"""

OUT_OF_MEMORY = f"""\
{TRAIN}Traceback (most recent call last):
{TRAIN}  File "/opt/slime/backends/megatron_utils/actor.py", line 368, in train
{TRAIN}    train(rollout_id, self.model, self.optimizer, self.opt_param_scheduler)
{TRAIN}  File "/opt/Megatron-LM/megatron/core/tensor_parallel/cross_entropy.py", line 61
{TRAIN}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.15 GiB. GPU 3 has a \
total capacity of 79.11 GiB of which 12.02 GiB is free. Process 71 has 67.08 GiB memory in use.

Traceback (most recent call last):
  File "/opt/slime/train.py", line 110, in <module>
    train(args)
ray.exceptions.RayTaskError(OutOfMemoryError): ray::MegatronTrainRayActor.train() \
(pid=2071, ip=10.0.0.4)

ray.exceptions.ActorDiedError: The actor is dead because it was killed by `ray.kill`.

Job 'raysubmit_Q3v8k2nLx' failed"""

NCCL_TIMEOUT = f"""\
{TRAIN}[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=5919, OpType=_ALLGATHER_BASE, NumelIn=272498688, Timeout(ms)=1800000) \
ran for 1800098 milliseconds before timing out."""


def wrote(at: float, prefix: str, *lines: str) -> LogEntry:
    """One entry: the lines a process wrote at once."""
    return LogEntry(at, "".join(f"{prefix}{line}\n" for line in lines))


def failure_log(at: float, text: str) -> list[LogEntry]:
    """One entry a paragraph, each a second after the one before."""
    paragraphs = text.split("\n\n")
    return [LogEntry(at + n, f"{part}\n", "stderr") for n, part in enumerate(paragraphs)]


def bar(at: float, name: str, done: int, total: int, seconds: float) -> LogEntry:
    """One state of a progress bar; the next one, if any, is drawn over it."""
    filled = "█" * (10 * done // total)
    elapsed = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
    text = f"{name}: {100 * done // total:3d}%|{filled:<10}| {done}/{total} [{elapsed}]"
    return LogEntry(at, ROLLOUT + text + ("\n" if done == total else "\r"), "stderr")


def decode_batch(at: float, running: int) -> LogEntry:
    """The line an engine writes every so often while it generates."""
    requests = f"#running-req: {running}, #token: {running * 1291}, #queue-req: 0"
    speed = f"gen throughput (token/s): {running * 61.7:.2f}"
    return wrote(at, ENGINE, f"Decode batch. {requests}, {speed}")


def setup_log(run_id: str, start: float, end: float) -> list[LogEntry]:
    """From the container's first line to engines that are ready."""
    lines = SETUP.format(run_id=run_id).splitlines()
    gap = (end - start) / len(lines)
    return [wrote(start + gap * number, DRIVER, line) for number, line in enumerate(lines)]


QUESTION = (
    "Natalia sold clips to 48 friends in April, and then she sold half as many in May. "
    "How many clips did she sell altogether?"
)


def generating_log(step: int, span: Span, mean: float) -> list[LogEntry]:
    """The engines at work, and the rollout that came of it."""
    entries = [wrote(span.start, TRAIN, "Timer train_wait start")]
    for eighth in range(1, 9):
        at = span.start + span.seconds * eighth / 8
        entries.append(decode_batch(at - span.seconds / 16, 32 - 3 * eighth))
        entries.append(bar(at - 1, "Rollout generation", 32 * eighth, 256, at - span.start))
    sample = (
        f"Finish rollout: ['<|im_start|>user\\n{QUESTION}<|im_end|>\\n"
        "<|im_start|>assistant\\n<think>\\nIn May she sold 48 / 2 = 24', 1]"
    )
    recorded = (
        f"rollout {step - 1}: {{'rollout/response_lengths': {1790 + 13 * step}.4, "
        f"'rollout/rewards': {mean}, 'rollout/truncated': 0.031}}"
    )
    speed = (
        f"perf {step - 1}: {{'perf/rollout_time': {span.seconds}, "
        f"'perf/tokens_per_gpu_per_sec': {1840 + 7 * step}.7}}"
    )
    written = wrote(span.end - 0.5, ROLLOUT, sample), wrote(span.end, ROLLOUT, recorded, speed)
    return [*entries, *written]


def timer_log(name: str, span: Span) -> list[LogEntry]:
    """What slime's timer writes around a stretch of work."""
    return [
        wrote(span.start, TRAIN, f"Timer {name} start"),
        # Just before the end, so that what starts right then is written after it.
        wrote(span.end - 0.2, TRAIN, f"Timer {name} end (elapsed: {span.seconds:.1f}s)"),
    ]


def step_log(loop: Loop, step: int) -> list[LogEntry]:
    """One whole step, as the loop's processes write it, not yet in order."""
    spans = loop.phases(step)
    log_probs, optimizer = spans["compute_log_probs"], spans["optimizer_step"]
    losses = (
        f"step {step - 1}: {{'train/loss': {0.04 - 0.0003 * step:.4f}, 'train/lr-pg_0': 1e-06}}"
    )
    entries = [
        *generating_log(step, spans["generate_rollouts"], loop.mean_of(step)),
        *timer_log("data_preprocess", Span(log_probs.start, log_probs.start + 0.7)),
        *timer_log("ref_log_probs", Span(log_probs.start + 0.8, log_probs.end)),
        *timer_log("actor_train", optimizer),
        wrote(optimizer.end - 1, TRAIN, losses),
        *timer_log("update_weights", spans["weight_sync"]),
    ]
    if "checkpoint_save" in spans:
        entries += timer_log("save_model", spans["checkpoint_save"])
    return entries


def training_log(run_id: str, loop: Loop, until: float) -> list[LogEntry]:
    """The set-up before the loop, then its latest steps, and nothing after `until`."""
    began = loop.start_of(loop.first)
    entries = setup_log(run_id, began - 7 * MINUTE, began)
    for step in loop.steps[-LOGGED_STEPS:]:
        entries += step_log(loop, step)
    return [entry for entry in entries if entry.at <= until]


# ---- A run: its record and its app --------------------------------------------------------------


def modal_id(kind: str, name: str) -> str:
    """An id of the right form that nothing else of the kind has."""
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:22]}"


def config(total: int, wandb_id: str | None = None, model: str = "Qwen/Qwen3-4B") -> dict[str, Any]:
    """What the user asked for. Without `wandb_id` the run reports to W&B under a derived id."""
    wandb = {"entity": "lab", "project": "gsm8k-grpo"}
    return {
        "model": {"model_name": model},
        "dataset": {"hf_repo": "openai/gsm8k", "split": "train"},
        "recipe": {"gpu_type": "H100", "num_rollout": total, "rollout_batch_size": 32},
        "wandb": wandb if wandb_id is None else {**wandb, "run_id": wandb_id},
    }


def record_of(run_id: str, created_at: float, **fields: Any) -> dict[str, Any]:
    """A record of today's shape, of a running slime run unless `fields` say otherwise."""
    app_id = fields.get("modal_app_id", modal_id("ap", run_id))
    return {
        "training_run_id": run_id,
        "modal_app_id": app_id,
        "modal_app_url": f"https://modal.com/id/{app_id}",
        "framework": "slime",
        "status": "running",
        "created_at": created_at,
        "started_at": created_at + 2 * MINUTE,
        "updated_at": created_at,
        "ended_at": None,
        "error_message": None,
        "config": config(50),
        **fields,
    }


def marked(phase: str, at: float, **more: Any) -> dict[str, Any]:
    """What a record holds once its run marked a phase at `at`."""
    progress = {"phase": phase, "updated_at": at, **more}
    fields = {"framework_status": phase, "updated_at": at}
    return {**fields, "metadata": {"framework_progress": progress, "attempt_count": 1}}


def ended(status: str, at: float, **more: Any) -> dict[str, Any]:
    """What a record gets when its run ends."""
    return {"status": status, "ended_at": at, "updated_at": at, **more}


SET_UP = (
    LocalFunction("", "download_model"),
    LocalFunction("", "prepare_dataset"),
    LocalFunction("", "convert_checkpoint", gpus=1),
)


def app_of(record: Mapping[str, Any], logs: Iterable[LogEntry]) -> LocalApp:
    """The run's app, live and well, with its logs in order."""
    run_id, created_at = record["training_run_id"], record["created_at"]
    calls = [LocalCall("running", created_at + 60)]
    train = LocalFunction("", "train", gpus=8, containers=1, calls=calls)
    return LocalApp(
        app_id=record["modal_app_id"],
        description=run_id,
        state="detached",
        created_at=created_at + 20,
        tasks=1,
        logs=sorted(logs, key=lambda entry: entry.at),
        functions=[
            replace(function, function_id=modal_id("fu", f"{run_id}/{function.name}"))
            for function in (*SET_UP, train)
        ],
    )


def training(
    run_id: str,
    about: str,
    verdict: str,
    loop: Loop,
    *,
    at: float | None = None,
    total: int = 50,
    logs: Iterable[LogEntry] = (),
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> SampleRun:
    """A run inside its loop, which goes as it should until `at`, and nothing tells of it since.

    Without `at` that is when it entered its phase. `logs` are what it wrote beside its steps,
    `fields` what its record holds instead of what all have, `metadata` what more it holds there.
    """
    at = loop.since if at is None else at
    place = {"current": loop.step, "total": total, "rollout_id": loop.step - 1, "is_active": True}
    held = {"config": config(total), **marked(loop.phase, at, **place), **timings(loop, at)}
    held["metadata"] |= metadata or {}
    record = record_of(run_id, **{"created_at": loop.start - 10 * MINUTE, **held, **fields})
    app = app_of(record, [*training_log(run_id, loop, at), *logs])
    return SampleRun(run_id, about, verdict, record, app, loop.rollouts(at))


# ---- The runs: live ones that are stuck or slow -------------------------------------------------


def stuck_on_the_judge(now: float) -> SampleRun:
    since, newest = now - 22 * MINUTE, now - 2 * MINUTE
    loop = Loop(pace=254.0, reward=0.181, rise=0.0231).entering("generate_rollouts", 12, since)
    refused = "401 Unauthorized for url https://lab--judge.modal.run/score, retrying in 30 s"
    logs = [decode_batch(since + 12, 32), bar(since + 24, "Rollout generation", 12, 256, 24)]
    for number in range(39):
        line = f"WARNING reward request failed (attempt {number % 5 + 1}/5): {refused}\n"
        logs.append(LogEntry(newest - 30 * (38 - number), ROLLOUT + line, "stderr"))
    return training(
        "elastic-frog-a1b2c3d4e5f6",
        "live, stuck: the reward endpoint answers 401",
        "stuck",
        loop,
        logs=logs,
        modal_app_id="ap-0123456789abcdefABCDEF",
        config=config(50, "x7k2m9qp"),
    )


def only_health_checks(now: float) -> SampleRun:
    about = "live, stuck: nothing but health checks for 40m"
    loop = Loop(pace=310.0).entering("optimizer_step", 17, now - 41 * MINUTE)
    line = 'INFO:     10.0.0.4:60288 - "GET /health_generate HTTP/1.1" 200 OK'
    logs = [wrote(now - 40 * MINUTE + 10 * tick, ENGINE, line) for tick in range(240)]
    return training("silent-mole-7d3e91c05ab2", about, "stuck", loop, logs=logs)


def long_evaluation(now: float) -> SampleRun:
    about = "live, its record silent, its log not"
    loop = Loop(pace=280.0).entering("evaluate_rollouts", 21, now - 17 * MINUTE)
    logs: list[LogEntry] = []
    for tick in range(50):
        seconds = 20.0 * (tick + 1)
        logs.append(decode_batch(loop.since + seconds, 30))
        logs.append(bar(loop.since + seconds + 5, "Eval aime", 3 + 7 * tick, 480, seconds))
    return training("patient-tortoise-2b84f6d10c9e", about, "running", loop, logs=logs)


# ---- What only Modal knows of them ---------------------------------------------------------------


def utilization(*stretches: tuple[int, float]) -> list[LocalSeries]:
    """What the GPUs read, minutes and per cent at a time; the newest sample is of a minute ago."""
    values = tuple(value for minutes, value in stretches for _ in range(minutes))
    memory = LocalSeries("gpu_memory_utilization_avg", "%", (71.5,) * len(values))
    return [memory, LocalSeries("gpu_utilization_max", "%", values)]


def idle_in_a_hang(now: float) -> SampleRun:
    about = "live, stuck: GPUs that run nothing"
    loop = Loop().entering("optimizer_step", 19, now - 26 * MINUTE)
    run = training("frozen-ibex-4b7c9d2e6f18", about, "stuck", loop)
    return run.trained_by(containers=2, series=utilization((30, 94.0), (24, 0.0)))


def busy_in_a_hang(now: float) -> SampleRun:
    about = "live, stuck: a collective that spins at 100 %"
    loop = Loop().entering("optimizer_step", 14, now - 24 * MINUTE)
    run = training("spinning-newt-d83f5a1c7e09", about, "stuck", loop)
    return run.trained_by(containers=2, series=utilization((60, 100.0)))


def no_container(now: float) -> SampleRun:
    about = "waiting: preempted, and no container for it yet"
    loop = Loop(pace=260.0).entering("generate_rollouts", 11, now - 19 * MINUTE)
    logs = [wrote(loop.since + 40, DRIVER, "Runner interrupted due to worker preemption.")]
    run = training("stranded-seal-7a1e5c93b0d4", about, "waiting", loop, logs=logs)
    return run.trained_by(containers=0, calls=[], backlog=1, container_errors=1)


def crash_loop(now: float) -> SampleRun:
    run_id, about = "looping-stoat-0e94b7f2d6a5", "live, stuck: every attempt ends the same way"
    starts = [now - minutes * MINUTE for minutes in (53, 40, 27, 14)]
    logs: list[LogEntry] = []
    for start in starts:
        logs += setup_log(run_id, start, start + 95)
        logs += failure_log(start + 100, OUT_OF_MEMORY)[:1]
    record = record_of(run_id, starts[0], **marked("initialize_rollouts", starts[-1] + 45))
    attempts = {"attempt_starts": starts, "last_attempt_started_at": starts[-1]}
    record["metadata"] |= {"attempt_count": len(starts), **attempts}
    run = SampleRun(run_id, about, "stuck", record, app_of(record, logs))
    return run.trained_by(calls=[], container_errors=3, series=utilization((10, 0.0)))


def timed_out(now: float) -> SampleRun:
    about = "died: Modal's timeout, of which the log says nothing"
    stopped_at = now - 21 * MINUTE
    loop = Loop(pace=310.0).entering("generate_rollouts", 16, stopped_at - MINUTE)
    run = training("weary-bison-9c2d7e4f1a60", about, "died", loop)
    return run.stopped(stopped_at, "timeout").trained_by(container_errors=1)


def out_of_memory(now: float) -> SampleRun:
    about = "died: killed by the kernel, the log holds but an echo"
    stopped_at = now - 21 * MINUTE
    loop = Loop(pace=310.0).entering("generate_rollouts", 16, stopped_at - MINUTE)
    echo = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
    logs = [wrote(stopped_at, DRIVER, echo)]
    run = training("hungry-dingo-5f8b1d3c9e72", about, "died", loop, logs=logs)
    return run.stopped(stopped_at, "kernel oom kill").trained_by(container_errors=1)


# ---- Live ones that are well --------------------------------------------------------------------

UNTIMED: dict[str, Any] = {"step_times": {}, "substep_times": {}}


def healthy_new_shape(now: float) -> SampleRun:
    run_id, at = "brisk-otter-5c0d9e8f7a61", now - 4
    loop = Loop(pace=240.0, reward=0.249, rise=0.0118).entering("optimizer_step", 30, now - 6)
    settings = config(100)
    settings["metrics"] = settings.pop("wandb") | {"run_id": "br0t7e5c"}
    run = training(
        run_id,
        "live and well, newer shape of record",
        "running",
        loop,
        at=at,
        total=100,
        config=settings,
        metadata={"latest_rollout": loop.rollouts(at)[-1]},
        **UNTIMED,
    )
    return replace(run.in_app(state="ephemeral"), files=substep_files(run_id, loop, at))


def preparing_the_dataset(now: float) -> SampleRun:
    run_id, about = "misty-falcon-e47a0b6c18d3", "live, still in its one-time set-up"
    since = now - 6 * MINUTE
    logs = [wrote(since, DRIVER, "Downloading dataset openai/gsm8k (main, train) ...")]
    for tick in range(1, 179):
        line = f"Tokenizing prompts: {41 * tick}/7473 examples, {7093 * tick} tokens"
        logs.append(wrote(since + 2 * tick, DRIVER, line))
    record = record_of(run_id, now - 13 * MINUTE, **marked("prepare_dataset", now - 9))
    return SampleRun(run_id, about, "running", record, app_of(record, logs))


def saving_a_checkpoint(now: float) -> SampleRun:
    about = "live and well, saving a checkpoint"
    loop = Loop(pace=330.0, shares=SAVING_STEP).entering("checkpoint_save", 20, now - 35)
    shards = [f"saving shard {number}/8 of iter_0000019" for number in range(1, 7)]
    logs = [wrote(loop.since + 5 * n, TRAIN, shard) for n, shard in enumerate(shards, 1)]
    run = training("silver-lynx-90f3c7be5d14", about, "running", loop, logs=logs)
    return run.in_app(state="deployed")


def syncing_weights(now: float) -> SampleRun:
    run_id, about = "amber-heron-3f5a7c9e1b20", "live and well; shares its W&B id with amber-hawk"
    loop = Loop(pace=200.0).entering("weight_sync", 8, now - 2)
    run = training(run_id, about, "running", loop, config=config(50, "hq3v8k2n"))
    return run.in_app(state="ephemeral")


def resumed(now: float) -> SampleRun:
    """Ran to step 23, was restarted twice, and goes on from the checkpoint after step 19."""
    about = "live and well, third attempt, from a checkpoint"
    loop = Loop(pace=260.0, reward=0.229, first=20).entering("generate_rollouts", 26, now - 95)
    before = replace(loop, start=loop.start - 66 * MINUTE, reward=0.14, first=1, step=23)
    restarted_at = loop.start_of(20) - 8 * MINUTE
    logs = [wrote(restarted_at, DRIVER, "Attempt 3: resuming from /checkpoints/iter_0000019")]
    attempts = {
        "attempt_count": 3,
        "attempt_starts": [before.start - 8 * MINUTE, restarted_at - 20 * MINUTE, restarted_at],
        "last_attempt_started_at": restarted_at,
        "resumed_from_checkpoint": True,
        "resume_checkpoint_name": "iter_0000019",
        "resume_from_iteration": 19,
    }
    run_id = "stubborn-mule-c81d4e2f60b7"
    run = training(
        run_id,
        about,
        "running",
        loop,
        at=now - 20,
        logs=logs,
        metadata=attempts,
        created_at=before.start - 10 * MINUTE,
    )
    # The rows of the new attempt come first: the later row of an id isn't always the newer one.
    return replace(run, rollouts=[*run.rollouts, *before.rollouts(restarted_at)])


def miles(now: float) -> SampleRun:
    run = training(
        "gentle-panda-b6920d7f3ce8",
        "live and well, miles: knows no total and no finer phase",
        "running",
        Loop(pace=420.0, reward=-0.342, rise=0.054).entering("training", 7, now - 130),
        at=now - 15,
        total=0,
        framework="miles",
        config=config(0, model="zai-org/GLM-4.5-Air"),
        **UNTIMED,
    )
    return replace(run, rollouts=[row | {"rollout_time": None} for row in run.rollouts])


# ---- Those that have not begun ------------------------------------------------------------------


def queued(now: float) -> SampleRun:
    run_id = "early-wren-16be5f0a9d73"
    record = record_of(run_id, now - 6 * MINUTE, framework_status="initializing")
    record |= {"modal_app_id": "", "modal_app_url": "", "started_at": None}
    return SampleRun(run_id, "queued: no app yet", "queued", record)


def waiting_for_a_gpu(now: float) -> SampleRun:
    run_id, phase, since = "thirsty-camel-48c2a6e9f01d", "download_model", now - 4 * MINUTE
    logs = [wrote(since, DRIVER, "download_model: waiting for 8 x H100 in us-east ...")]
    record = record_of(run_id, now - 7 * MINUTE, **marked(phase, since, is_active=False))
    run = SampleRun(run_id, "waiting for a GPU", "waiting", record, app_of(record, logs))
    return run.in_app(state="initializing").trained_by(containers=0, calls=[], backlog=1)


# ---- Those that have ended, one way or another --------------------------------------------------


def train_result(run_id: str) -> dict[str, bytes]:
    """The file that exists once training produced something."""
    return {f"train-results/{run_id}.json": to_json({"training_run_id": run_id})}


def died(now: float) -> SampleRun:
    about = "died: out of memory, but the status says running"
    stopped_at = now - 14 * MINUTE
    loop = Loop(reward=0.198, rise=0.0126).entering("optimizer_step", 15, stopped_at - MINUTE)
    logs = failure_log(stopped_at - 48, OUT_OF_MEMORY)
    run = training("hollow-crane-f20e8d6b4a95", about, "died", loop, logs=logs)
    return run.stopped(stopped_at, "failure", by="maya")


def completed(now: float) -> SampleRun:
    run_id, ended_at = "golden-finch-0a6d3b9c72e1", now - 5 * HOUR
    loop = Loop(pace=230.0).entering("weight_sync", 40, ended_at - 30)
    fields = {"total": 40, **ended("completed", ended_at)}
    logs = [wrote(ended_at, DRIVER, "Training finished: 40 rollouts")]
    run = training(run_id, "completed 5h ago", "completed", loop, at=ended_at, logs=logs, **fields)
    return replace(run.stopped(ended_at, "success"), files=train_result(run_id))


def status_lags(now: float) -> SampleRun:
    run_id, stopped_at = "swift-marten-d59c1e7a3b06", now - 3 * MINUTE
    about = "finished: a result is there, the status still says running"
    loop = Loop(pace=250.0).entering("weight_sync", 40, stopped_at - 30)
    run = training(run_id, about, "completed", loop, at=stopped_at, total=40)
    return replace(run.stopped(stopped_at, "success"), files=train_result(run_id))


LONG_ERROR = (
    "\x1b[31mray.exceptions.ActorDiedError\x1b[0m: The actor died unexpectedly.\n"
    "Traceback (most recent call last):\n"
    + '  File "\x1b[35m/opt/slime/ray/actor_group.py\x1b[0m", line 104, in async_train\n' * 40
    + "torch.distributed.DistBackendError: NCCL watchdog: collective operation timeout"
)


def failed(now: float) -> SampleRun:
    run_id, about = "crimson-badger-8e17f4a0d26c", "failed: NCCL timeout, with a long error"
    ended_at = now - 2 * HOUR
    loop = Loop(pace=270.0).entering("compute_log_probs", 9, ended_at - 31 * MINUTE)
    logs = failure_log(ended_at - MINUTE, NCCL_TIMEOUT)
    fields = ended("failed", ended_at, error_message=LONG_ERROR)
    run = training(run_id, about, "failed", loop, logs=logs, **fields)
    *well, bad, partial = run.rollouts
    counts = {"remote_error": 256, "total_samples": 256, "verdict": "all_infra_failure"}
    few = {"remote_error": 31, "total_samples": 256, "verdict": "partial_infra_failure"}
    troubled = [bad | {"mean": math.nan, "error_summary": counts}, partial | {"error_summary": few}]
    return replace(run.stopped(ended_at, "failure"), rollouts=[*well, *troubled])


def cancelled(now: float) -> SampleRun:
    run_id, about = "dusty-gecko-6c9b2f81e0d4", "cancelled by a reconciler: its app was gone"
    ended_at = now - 26 * HOUR
    loop = Loop(pace=290.0).entering("generate_rollouts", 4, ended_at - HOUR)
    reason = {"terminal_reason": "stale_modal_app_terminated"}
    fields = ended("cancelled", ended_at)
    run = training(run_id, about, "cancelled", loop, metadata=reason, **fields)
    return run.stopped(loop.since + 100, "terminated")


def stopped(now: float) -> SampleRun:
    run_id, about = "amber-hawk-b4d2f0e8a617", "stopped by hand; amber-h finds two runs"
    ended_at = now - 4 * HOUR
    loop = Loop(pace=200.0).entering("generate_rollouts", 6, ended_at - 50)
    fields = ended("stopped", ended_at, config=config(50, "hq3v8k2n"))
    run = training(run_id, about, "stopped", loop, **fields)
    return run.stopped(ended_at, "terminated", by="maya")


# ---- Odd ones -----------------------------------------------------------------------------------


def malformed_app_id(now: float) -> SampleRun:
    run_id, about = "lost-sparrow-27fa0c5e8b39", "unknown: its app id is malformed"
    loop = Loop(pace=240.0).entering("generate_rollouts", 3, now - 35 * MINUTE)
    ids: dict[str, Any] = {"modal_app_id": "app_01HZX4", "modal_app_url": ""}
    return replace(training(run_id, about, "unknown", loop, **ids), app=None)


def old_record(now: float) -> SampleRun:
    """A record from before today's shape: other keys, wrapped values, times as ISO 8601."""
    run_id = "6f1d2c3b-0a9e-4b57-8c1d-2e3f4a5b6c7d"
    app_id, created_at = modal_id("ap", run_id), now - 20 * DAY
    loop = Loop(pace=320.0, reward=0.098, rise=0.02, start=created_at + 20 * MINUTE, step=12)
    ended_at = loop.start_of(13)
    started_at = datetime.fromtimestamp(created_at + 90, UTC)
    settings = config(12, model="Qwen/Qwen2.5-3B")
    settings["preset"] = settings.pop("recipe")
    record = {
        "run_id": run_id,
        "modal_app_id": f"https://modal.com/apps/lab/main/{app_id}",
        "modal_app_url": "",
        "framework": {"value": "slime", "source": "dict"},
        "status": {"value": "completed", "source": "dict"},
        "created_at": f"{datetime.fromtimestamp(created_at, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "started_at": {"value": f"{started_at:%Y-%m-%dT%H:%M:%S}", "source": "dict"},
        "ended_at": str(ended_at),
        "config": settings,
        "metadata": {"framework_progress": {"current": "12", "total": {"value": "12"}}},
    }
    about, logs = (
        "completed weeks ago, oldest shape of record",
        training_log(run_id, loop, ended_at),
    )
    app = LocalApp(app_id, run_id, "stopped", created_at, stopped_at=ended_at, logs=logs)
    return SampleRun(run_id, about, "completed", record, app, loop.rollouts(ended_at))


# ---- The gym ------------------------------------------------------------------------------------

RUNS = (
    stuck_on_the_judge, only_health_checks, long_evaluation,
    idle_in_a_hang, busy_in_a_hang, no_container, crash_loop, timed_out, out_of_memory,
    healthy_new_shape, preparing_the_dataset, saving_a_checkpoint, syncing_weights, resumed, miles,
    queued, waiting_for_a_gpu,
    died, completed, status_lags, failed, cancelled, stopped,
    malformed_app_id, old_record,
)  # fmt: skip


def sample_gym(now: float) -> Gym:
    """The gym as it stands at `now`, seconds since the epoch."""
    # Whole seconds, so that the times in records and logs are as plain as real ones.
    runs = tuple(run(math.floor(now)) for run in RUNS)
    rows = [{"training_run_id": run.run_id, **row} for run in runs for row in run.rollouts]
    rows.sort(key=lambda row: (row["training_run_id"], row["rollout_id"]))
    files = {
        "training-runs-summary/summary.json": to_json({"items": [run.record for run in runs]}),
        "training-rollouts-summary/summary.json": to_json({"items": rows}),
    }
    # Of a rollout that was recorded twice there is one file, the newer.
    for row in sorted(rows, key=lambda row: float(row["created_at"])):
        path = f"training-rollouts/{row['training_run_id']}__{row['rollout_id']:08d}.json"
        files[path] = to_json({**row, "samples": [{"score": row["mean"]}] * row["total"]})
    for run in runs:
        files |= {f"training-runs/{run.run_id}.json": to_json(run.record), **run.files}
    return Gym(runs, files)
