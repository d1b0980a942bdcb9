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

    from local_modal import AppState, LocalModal

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


@dataclass(frozen=True)
class SampleRun:
    """One run of the gym: its record, and what is true of it."""

    run_id: str
    about: str
    verdict: str
    record: dict[str, Any]


@dataclass(frozen=True)
class Gym:
    """Everything Modal knows of the sample runs."""

    runs: tuple[SampleRun, ...]
    files: dict[str, bytes]
    apps: tuple[LocalApp, ...]

    def run(self, run_id: str) -> SampleRun:
        """The run with this whole id."""
        return next(run for run in self.runs if run.run_id == run_id)

    def install(self, server: LocalModal) -> None:
        """Put copies of the files and apps into a server, so that a test may change them."""
        server.files.update(self.files)
        for app in self.apps:
            functions = [replace(function) for function in app.functions]
            server.add_app(replace(app, logs=list(app.logs), functions=functions))


# ---- Rollouts: the rows of the summary and the files they sum up --------------------------------


@dataclass(frozen=True)
class Rollout:
    """One recorded rollout."""

    rollout_id: int
    created_at: float
    mean: float | None
    total: int = 256
    rollout_time: float | None = None
    errors: Mapping[str, Any] | None = None

    def row(self, run_id: str) -> dict[str, Any]:
        """Its row in the rollouts summary."""
        row: dict[str, Any] = {
            "training_run_id": run_id,
            "rollout_id": self.rollout_id,
            "created_at": self.created_at,
            "total": self.total,
            "mean": self.mean,
            "episode_count": self.total,
            "rollout_time": self.rollout_time,
            "tag_stats": {
                "correctness": {"count": self.total, "mean": self.mean, "min": 0.0, "max": 1.0},
                "format": {"count": self.total, "mean": 0.94, "min": 0.0, "max": 1.0},
            },
            "export_size_bytes": 1_482_113 + 7_919 * self.rollout_id,
            "summary_key": f"{run_id}__{self.rollout_id:08d}",
        }
        if self.errors:
            row["error_summary"] = dict(self.errors)
        return row

    def canonical(self, run_id: str) -> dict[str, Any]:
        """The whole file: as many samples as it says, with nearly the mean it says."""
        mean = 0.0 if self.mean is None or math.isnan(self.mean) else self.mean
        right = round(self.total * max(mean, 0.0))
        samples = [{"score": 1.0 if index < right else 0.0} for index in range(self.total)]
        return {
            "training_run_id": run_id,
            "rollout_id": self.rollout_id,
            "created_at": self.created_at,
            "n_samples_per_prompt": 8,
            "metrics": {"response_lengths": 1804.2, "truncated_ratio": 0.031},
            "samples": samples,
        }


# ---- The training loop: when each phase of each step ran, and what it wrote ---------------------

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
    """From when and for how many seconds a phase ran."""

    start: float
    seconds: float

    @property
    def end(self) -> float:
        """When it was over."""
        return self.start + self.seconds


@dataclass(frozen=True)
class Loop:
    """A training loop: step n starts `pace` seconds after step n - 1, step 1 at `start`.

    The mean reward starts near `reward` and rises by `rise` a step.
    """

    pace: float
    reward: float
    rise: float
    start: float = 0.0
    shares: Mapping[str, float] = field(default_factory=lambda: PLAIN_STEP)

    def entering(self, phase: str, step: int, at: float) -> Loop:
        """The same loop, but moved in time so that it enters `phase` of `step` at `at`."""
        moved = at - self.phases(step)[phase].start
        return replace(self, start=round(self.start + moved, 1))

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
            spans[name] = Span(round(at, 1), round(length, 1))
            at += length
        return spans

    def mean_of(self, step: int) -> float:
        """The mean reward of a step's rollout, which wavers a little as it rises."""
        return round(self.reward + self.rise * (step - 1) + (step % 3 - 2) * 0.004, 4)

    def rollouts(self, steps: range) -> tuple[Rollout, ...]:
        """What these steps recorded, each at the end of its generation."""
        return tuple(self._rollout(step) for step in steps)

    def _rollout(self, step: int) -> Rollout:
        generated = self.phases(step)["generate_rollouts"]
        mean = self.mean_of(step)
        return Rollout(step - 1, generated.end, mean, rollout_time=generated.seconds)


def timings(loop: Loop, steps: range, phase: str | None = None) -> dict[str, Any]:
    """The older `step_times` and `substep_times`; with a phase, the last step is still in it."""
    whole = steps if phase is None else steps[:-1]
    step_times: dict[str, Any] = {}
    substep_times: dict[str, Any] = {}
    for step in whole:
        start, end = loop.start_of(step), loop.start_of(step + 1)
        step_times[str(step)] = {"start": start, "end": end, "duration_s": round(end - start, 1)}
        substep_times[str(step)] = {
            name: {"start": span.start, "duration_s": span.seconds}
            for name, span in loop.phases(step).items()
        }
    if phase is not None:
        start = loop.start_of(steps[-1])
        step_times[str(steps[-1])] = {"start": start, "end": None, "duration_s": None}
        substep_times[str(steps[-1])] = open_substeps(loop, steps[-1], phase)
    return {"step_times": step_times, "substep_times": substep_times}


def open_substeps(loop: Loop, step: int, phase: str) -> dict[str, Any]:
    """The phases before the open one, whole, and the open one. Evaluation precedes them all."""
    if phase not in loop.shares:
        return {phase: {"start": loop.start_of(step), "duration_s": None}}
    substeps: dict[str, Any] = {}
    for name, span in loop.phases(step).items():
        if name == phase:
            substeps[name] = {"start": span.start, "duration_s": None}
            break
        substeps[name] = {"start": span.start, "duration_s": span.seconds}
    return substeps


ROLES = {
    "driver": {name: name for name in PLAIN_STEP},
    "rollout": {"generate_rollouts": "generate_rollouts"},
    "actor": {"compute_log_probs": "compute_log_probs", "optimizer_step": "train_models"},
}


def substep_files(run_id: str, loop: Loop, steps: range, phase: str) -> dict[str, bytes]:
    """The newer `substep-timing` files; the last step is in `phase` and not final."""
    files: dict[str, bytes] = {}
    for role, names in ROLES.items():
        before = Span(loop.start - 412.0, 412.0)
        pre_loop = substep_record(run_id, None, role, before.start, {"initialize_rollouts": before})
        files[f"substep-timing/{run_id}/pre-loop__{role}.json"] = to_json(pre_loop)
        for step in steps:
            spans = loop.phases(step)
            if step == steps[-1]:
                ordered = list(spans)
                spans = {name: spans[name] for name in ordered[: ordered.index(phase)]}
            own = {names[name]: span for name, span in spans.items() if name in names}
            record = substep_record(run_id, step - 1, role, loop.start_of(step), own)
            record["final"] = step != steps[-1]
            files[f"substep-timing/{run_id}/{step - 1:08d}__{role}.json"] = to_json(record)
    return files


def substep_record(
    run_id: str, rollout_id: int | None, role: str, start: float, spans: Mapping[str, Span]
) -> dict[str, Any]:
    """One role's timing of one step."""
    return {
        "training_run_id": run_id,
        "rollout_id": rollout_id,
        "role": role,
        "lane_start_unix_s": start,
        "final": True,
        "phases": {
            name: {
                "count": 1,
                "busy_duration_s": span.seconds,
                "longest_invocation_s": span.seconds,
                "first_start_s": round(span.start - start, 1),
                "last_end_s": round(span.end - start, 1),
            }
            for name, span in spans.items()
        },
    }


# ---- Logs: what slime, Megatron, SGLang and Ray write -------------------------------------------

ROLLOUT = "(RolloutManager pid=1188) "
TRAIN = "(MegatronTrainRayActor pid=2071) "
ENGINE = "(SGLangEngine pid=1400) "
DRIVER = ""


def wrote(at: float, prefix: str, *lines: str, stderr: bool = False) -> LogEntry:
    """One entry: the lines a process wrote at once."""
    text = "".join(f"{prefix}{line}\n" for line in lines)
    return LogEntry(at, text, "stderr" if stderr else "stdout")


def clock(at: float) -> str:
    """The time as SGLang writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def bar(at: float, name: str, done: int, total: int, seconds: float) -> LogEntry:
    """One state of a progress bar; the next one, if any, is drawn over it."""
    filled = "█" * (10 * done // total)
    elapsed = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
    text = f"{name}: {100 * done // total:3d}%|{filled:<10}| {done}/{total} [{elapsed}]"
    return LogEntry(at, ROLLOUT + text + ("\n" if done == total else "\r"), "stderr")


def decode_batch(at: float, running: int) -> LogEntry:
    """The line an engine writes every so often while it generates."""
    return wrote(
        at,
        ENGINE,
        f"[{clock(at)} TP0] Decode batch. #running-req: {running}, #token: {running * 1291}, "
        f"token usage: {running / 160:.2f}, cuda graph: True, "
        f"gen throughput (token/s): {running * 61.7:.2f}, #queue-req: 0",
    )


def health_checks(start: float, end: float) -> list[LogEntry]:
    """Nothing but the router asking whether its engines live."""
    line = 'INFO:     10.0.0.{}:60288 - "GET /health_generate HTTP/1.1" 200 OK'
    count = int((end - start) // 10) + 1
    return [
        wrote(start + 10 * tick, f"(SGLangEngine pid={1400 + tick % 8}) ", line.format(tick % 8))
        for tick in range(count)
    ]


SETUP_LINES = (
    (DRIVER, "Training run id: {run_id}"),
    (DRIVER, "Image slimerl/slime:v0.2.1, CUDA 12.6, driver 570.86.15, 8 x NVIDIA H100 80GB HBM3"),
    (DRIVER, "INFO worker.py:1942 -- Started a local Ray instance."),
    (DRIVER, "Job submission server address: http://127.0.0.1:8265"),
    (DRIVER, "Fetching 14 files: 100%|██████████| 14/14 [00:41<00:00,  2.96s/it]"),
    (DRIVER, "Converting {model} to torch_dist with TP=2 PP=1 EP=1"),
    (TRAIN, "> initializing torch distributed ..."),
    (TRAIN, "> initialized tensor model parallel with size 2"),
    (TRAIN, "> initialized pipeline model parallel with size 1"),
    (TRAIN, "> setting random seeds to 1234 ..."),
    (TRAIN, "building GPT model ..."),
    (TRAIN, " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 2011170816"),
    (TRAIN, "loading distributed checkpoint from /root/models/{model}_torch_dist at iteration 0"),
    (TRAIN, "could not find arguments in the checkpoint ..."),
    (TRAIN, " checkpoint version 3.0"),
    (TRAIN, "> learning rate decay style: constant"),
    (ROLLOUT, "Launch router at 10.0.0.4:3512"),
    (ENGINE, "server_args=ServerArgs(model_path='/root/models/{model}', tp_size=2, dtype='auto')"),
    (ENGINE, "Load weight begin. avail mem=78.58 GB"),
    (ENGINE, "Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=74.71 GB"),
    (ENGINE, "KV Cache is allocated. #tokens: 206336, K size: 14.17 GB, V size: 14.17 GB"),
    (ENGINE, "Capture cuda graph begin. This can take up to several minutes. avail mem=44.90 GB"),
    (ENGINE, "Capture cuda graph end. Time elapsed: 21.83 s. mem usage=1.12 GB."),
    (ENGINE, "INFO:     Uvicorn running on http://10.0.0.4:15000 (Press CTRL+C to quit)"),
    (ENGINE, "The server is fired up and ready to roll!"),
    (ROLLOUT, "import slime.rollout.sglang_rollout.generate_rollout as generate_rollout function."),
    (TRAIN, "Timer update_weights start"),
    (TRAIN, "Timer update_weights end (elapsed: 6.2s)"),
)


def setup_log(run_id: str, model: str, start: float, end: float) -> list[LogEntry]:
    """From the container's first line to engines that are ready."""
    gap = (end - start) / len(SETUP_LINES)
    return [
        wrote(start + gap * number, prefix, line.format(run_id=run_id, model=model))
        for number, (prefix, line) in enumerate(SETUP_LINES)
    ]


def generating_log(step: int, span: Span, mean: float) -> list[LogEntry]:
    """The engines at work, and the rollout that came of it."""
    entries = [wrote(span.start, TRAIN, "Timer train_wait start")]
    for eighth in range(1, 9):
        at = span.start + span.seconds * eighth / 8
        entries += [
            decode_batch(at - span.seconds / 16, 32 - 3 * eighth),
            bar(at - 1, "Rollout generation", 32 * eighth, 256, at - span.start),
        ]
    entries += [
        wrote(
            span.end - 0.5,
            ROLLOUT,
            "Finish rollout: ['<|im_start|>user\\nNatalia sold clips to 48 friends in April, "
            "and then she sold half as many in May. How many clips did she sell altogether?"
            "<|im_end|>\\n<|im_start|>assistant\\n<think>\\nIn May she sold 48 / 2 = 24', 1]",
        ),
        wrote(
            span.end,
            ROLLOUT,
            f"rollout {step - 1}: {{'rollout/response_lengths': {1790 + 13 * step}.4, "
            f"'rollout/rewards': {mean}, 'rollout/truncated': 0.031}}",
            f"perf {step - 1}: {{'perf/rollout_time': {span.seconds}, "
            f"'perf/tokens_per_gpu_per_sec': {1840 + 7 * step}.7}}",
        ),
    ]
    return entries


def timer_log(name: str, start: float, end: float) -> list[LogEntry]:
    """What slime's timer writes around a stretch of work."""
    return [
        wrote(start, TRAIN, f"Timer {name} start"),
        # Just before the end, so that what starts right then is written after it.
        wrote(end - 0.2, TRAIN, f"Timer {name} end (elapsed: {end - start:.1f}s)"),
    ]


def step_log(loop: Loop, step: int) -> list[LogEntry]:
    """One whole step, as the loop's processes write it."""
    spans = loop.phases(step)
    log_probs, optimizer, sync = (
        spans[name] for name in ("compute_log_probs", "optimizer_step", "weight_sync")
    )
    entries = generating_log(step, spans["generate_rollouts"], loop.mean_of(step))
    entries += timer_log("data_preprocess", log_probs.start, log_probs.start + 0.7)
    entries += timer_log("ref_log_probs", log_probs.start + 0.8, log_probs.end)
    started, *ended = timer_log("actor_train", optimizer.start, optimizer.end)
    entries.append(started)
    for update in range(2):
        at = optimizer.start + optimizer.seconds * (update + 0.9) / 2
        number = (step - 1) * 2 + update
        loss, norm = 0.04 - 0.0003 * number, 0.9 + (number % 5) / 20
        entries.append(
            wrote(
                at,
                TRAIN,
                f"step {number}: {{'train/loss': {loss:.4f}, 'train/pg_clipfrac': 0.0021, "
                f"'train/kl_loss': 0.0008, 'train/grad_norm': {norm:.2f}, 'train/lr-pg_0': 1e-06}}",
            )
        )
    entries += ended
    if "checkpoint_save" in spans:
        save = spans["checkpoint_save"]
        entries += timer_log("save_model", save.start, save.end)
    entries += timer_log("update_weights", sync.start, sync.end)
    return entries


def training_log(run_id: str, loop: Loop, steps: range, until: float) -> list[LogEntry]:
    """The set-up before the loop, then these steps, and nothing after `until`."""
    setup = setup_log(run_id, "Qwen3-4B", loop.start - 7 * MINUTE, loop.start)
    entries = setup + [entry for step in steps for entry in step_log(loop, step)]
    return [entry for entry in entries if entry.at <= until]


def oom_log(at: float) -> list[LogEntry]:
    """Out of memory in one actor, and the chain of errors that it sets off."""
    return [
        wrote(
            at,
            TRAIN,
            "Traceback (most recent call last):",
            '  File "/opt/slime/backends/megatron_utils/actor.py", line 368, in train',
            "    train(rollout_id, self.model, self.optimizer, self.opt_param_scheduler)",
            '  File "/opt/Megatron-LM/megatron/core/tensor_parallel/cross_entropy.py", line 61',
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.15 GiB. GPU 3 has a "
            "total capacity of 79.11 GiB of which 12.02 GiB is free. Process 71 has 67.08 GiB "
            "memory in use.",
            stderr=True,
        ),
        wrote(
            at + 1,
            DRIVER,
            "Traceback (most recent call last):",
            '  File "/opt/slime/train.py", line 110, in <module>',
            "    train(args)",
            "ray.exceptions.RayTaskError(OutOfMemoryError): ray::MegatronTrainRayActor.train() "
            "(pid=2071, ip=10.0.0.4)",
            stderr=True,
        ),
        wrote(
            at + 5,
            DRIVER,
            "ray.exceptions.ActorDiedError: The actor is dead because it was killed by `ray.kill`.",
            stderr=True,
        ),
        wrote(at + 7, DRIVER, "Job 'raysubmit_Q3v8k2nLx' failed"),
    ]


def nccl_log(at: float) -> list[LogEntry]:
    """A collective that never came back, and the watchdog that ended the process."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("E%m%d %H:%M:%S")
    return [
        wrote(
            at,
            TRAIN,
            f"[rank1]:[{stamp}.236012277 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=5919, OpType=_ALLGATHER_BASE, "
            "NumelIn=272498688, NumelOut=544997376, Timeout(ms)=1800000) ran for 1800098 "
            "milliseconds before timing out.",
            stderr=True,
        ),
        wrote(
            at + 1,
            TRAIN,
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            stderr=True,
        ),
        wrote(
            at + 2,
            "(raylet) ",
            "A worker died or was killed while executing a task by an unexpected system error.",
            stderr=True,
        ),
    ]


# ---- Records, and what else a run leaves behind -------------------------------------------------

RECIPE = {
    "rollout_batch_size": 32,
    "n_samples_per_prompt": 8,
    "global_batch_size": 128,
    "rollout_max_response_len": 8192,
    "rollout_temperature": 1.0,
    "rollout_shuffle": True,
    "rollout_num_gpus": 8,
    "rollout_num_gpus_per_engine": 2,
    "balance_data": True,
    "advantage_estimator": "grpo",
    "use_kl_loss": True,
    "kl_loss_coef": 0.001,
    "kl_loss_type": "low_var_kl",
    "entropy_coef": 0.0,
    "eps_clip": 0.2,
    "eps_clip_high": 0.28,
    "use_tis": True,
    "optimizer": "adam",
    "lr": 1e-06,
    "lr_decay_style": "constant",
    "weight_decay": 0.1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1,
    "expert_model_parallel_size": 1,
    "sequence_parallel": True,
    "recompute_granularity": "full",
    "recompute_method": "uniform",
    "recompute_num_layers": 1,
    "use_dynamic_batch_size": True,
    "max_tokens_per_gpu": 9216,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "accumulate_allreduce_grads_in_fp32": True,
    "attention_softmax_in_fp32": True,
    "attention_backend": "flash",
    "sglang_mem_fraction_static": 0.7,
    "sglang_cuda_graph_max_bs": 256,
    "eval_interval": 20,
    "eval_prompt_data": ["aime", "/data/aime-2024.jsonl"],
    "n_samples_per_eval_prompt": 16,
    "eval_max_response_len": 16384,
    "save_interval": 20,
    "colocate": True,
    "custom_rm_path": "recipes.judge.score",
    "reward_endpoint": "https://lab--judge.modal.run/score",
    "environment": {
        "PYTHONPATH": "/opt/Megatron-LM",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_TIMEOUT_MS": "1800000",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    },
}


def config(total: int, wandb_id: str | None, *, model: str = "Qwen/Qwen3-4B") -> dict[str, Any]:
    """What the user asked for. Without `wandb_id` the run reports to W&B under a derived id."""
    wandb = {"entity": "lab", "project": "gsm8k-grpo", "group": "sweep-7"}
    return {
        "model": {"model_name": model, "revision": "main", "dtype": "bfloat16"},
        "dataset": {
            "hf_repo": "openai/gsm8k",
            "subset": "main",
            "split": "train",
            "input_key": "question",
            "label_key": "answer",
            "apply_chat_template": True,
            "system_prompt": "Think step by step. Put the final answer within \\boxed{}.",
        },
        "recipe": {
            "name": "qwen3-4b-grpo",
            "gpu_type": "H100",
            "actor_num_nodes": 1,
            "actor_num_gpus_per_node": 8,
            "num_rollout": total,
            **RECIPE,
        },
        "wandb": wandb if wandb_id is None else {**wandb, "run_id": wandb_id},
    }


def app_id_of(run_id: str) -> str:
    """An app id of the right form that no two runs share."""
    return "ap-" + hashlib.sha256(run_id.encode()).hexdigest()[:22]


def progress(phase: str, step: int, total: int, updated_at: float, **more: Any) -> dict[str, Any]:
    """`metadata.framework_progress` of a run inside its loop."""
    return {
        "phase": phase,
        "current": step,
        "total": total,
        "unit": "step",
        "rollout_id": step - 1,
        "is_active": True,
        "updated_at": updated_at,
        **more,
    }


def record_of(run_id: str, created_at: float, **fields: Any) -> dict[str, Any]:
    """A record of today's shape, of a running slime run unless `fields` say otherwise."""
    app_id = app_id_of(run_id)
    record = {
        "training_run_id": run_id,
        "modal_app_id": app_id,
        "modal_app_url": f"https://modal.com/id/{app_id}",
        "framework": "slime",
        "status": "running",
        "framework_status": None,
        "created_at": created_at,
        "started_at": created_at + 2 * MINUTE,
        "ended_at": None,
        "completed_at": None,
        "updated_at": created_at,
        "duration_seconds": None,
        "error_message": None,
        "function_call_id": "fc-" + app_id[3:].upper(),
        "dataset_id": "",
        "deployment_id": "",
        "group_id": "",
        "config": config(50, None),
        "metadata": {},
    }
    return record | fields


def in_loop(
    run_id: str, loop: Loop, phase: str, step: int, at: float, *, total: int = 50
) -> dict[str, Any]:
    """The record of a run that marked `phase` of `step` at the time `at`, and nothing since."""
    return record_of(
        run_id,
        loop.start - 10 * MINUTE,
        framework_status=phase,
        updated_at=at,
        config=config(total, None),
        metadata={"framework_progress": progress(phase, step, total, at), "attempt_count": 1},
    )


def ended(status: str, at: float, **more: Any) -> dict[str, Any]:
    """What a record gets when its run ends."""
    return {"status": status, "ended_at": at, "completed_at": at, "updated_at": at, **more}


@dataclass(frozen=True)
class Scene:
    """One run with all its traces."""

    run: SampleRun
    created_at: float
    app: LocalApp | None = None
    rollouts: Sequence[Rollout] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def app_of(
    record: Mapping[str, Any],
    logs: Iterable[LogEntry],
    state: AppState = "detached",
    *,
    stopped_at: float = 0.0,
    stopped_by: str = "",
    train: LocalFunction | None = None,
) -> LocalApp:
    """The run's app, with its logs in order; `train` sets its training function apart."""
    over = state == "stopped"
    ends = {"completed": "success", "stopped": "terminated", "cancelled": "terminated"}
    ended = ends.get(record["status"], "failure")
    call = LocalCall(ended if over else "running", record["created_at"] + 60)
    train = train or LocalFunction("", "train", gpus=8, containers=0 if over else 1, calls=[call])
    return LocalApp(
        app_id=record["modal_app_id"],
        description=record["training_run_id"],
        state=state,
        created_at=record["created_at"] + 20,
        stopped_at=stopped_at,
        stopped_by=stopped_by,
        tasks=0 if over else 1,
        logs=sorted(logs, key=lambda entry: entry.at),
        functions=[
            replace(function, function_id=function_id_of(record["training_run_id"], function.name))
            for function in (*SET_UP, train)
        ],
    )


SET_UP = (
    LocalFunction("", "download_model"),
    LocalFunction("", "prepare_dataset"),
    LocalFunction("", "convert_checkpoint", gpus=1),
)


def function_id_of(run_id: str, name: str) -> str:
    """A function id of the right form that no two functions share."""
    return "fu-" + hashlib.sha256(f"{run_id}/{name}".encode()).hexdigest()[:22]


def utilization(*stretches: tuple[int, float]) -> list[LocalSeries]:
    """What the GPUs read, minutes and per cent at a time; the newest sample is of a minute ago."""
    values = tuple(value for minutes, value in stretches for _ in range(minutes))
    return [
        LocalSeries("gpu_memory_utilization_avg", "%", tuple(71.5 for _ in values)),
        LocalSeries("gpu_utilization_max", "%", values),
        LocalSeries("gpu_utilization_avg", "%", tuple(0.9 * value for value in values)),
        LocalSeries("gpu_utilization_min", "%", tuple(0.0 for _ in values)),
    ]


def to_json(content: object) -> bytes:
    """A file of the volume. NaN is written bare, as the gym does."""
    return json.dumps(content).encode()


def train_result(run_id: str, reward: float) -> dict[str, bytes]:
    """The file that exists once training produced something."""
    result = {
        "training_run_id": run_id,
        "checkpoint_path": f"/checkpoints/{run_id}/iter_0000040",
        "final_reward": reward,
    }
    return {f"train-results/{run_id}.json": to_json(result)}


# ---- The runs: live ones that are stuck or slow -------------------------------------------------


def stuck_on_the_judge(now: float) -> Scene:
    run_id, phase, since = "elastic-frog-a1b2c3d4e5f6", "generate_rollouts", now - 22 * MINUTE
    app_id = "ap-0123456789abcdefABCDEF"
    loop = Loop(pace=254.0, reward=0.181, rise=0.0231).entering(phase, 12, since)
    record = in_loop(run_id, loop, phase, 12, since) | timings(loop, range(1, 13), phase)
    record |= {
        "modal_app_id": app_id,
        "modal_app_url": f"https://modal.com/id/{app_id}",
        "config": config(50, "x7k2m9qp"),
    }
    logs = training_log(run_id, loop, range(6, 12), since)
    logs += [wrote(since + 2, TRAIN, "Timer train_wait start"), decode_batch(since + 12, 32)]
    logs += [bar(since + 24, "Rollout generation", 12, 256, 24)]
    logs += refused_rewards(since + 40, now - 2 * MINUTE)
    about = "live, stuck: the reward endpoint answers 401"
    return Scene(
        SampleRun(run_id, about, "stuck", record),
        record["created_at"],
        app_of(record, logs),
        loop.rollouts(range(1, 12)),
    )


def refused_rewards(start: float, end: float) -> list[LogEntry]:
    """A request to the judge every 30 seconds, none of which it lets in."""
    count = int((end - start) // 30)
    return [
        wrote(
            end - 30 * (count - number),
            ROLLOUT,
            f"WARNING reward request failed (attempt {number % 5 + 1}/5): 401 Unauthorized for url "
            "https://lab--judge.modal.run/score, retrying in 30 s",
            stderr=True,
        )
        for number in range(count + 1)
    ]


def only_health_checks(now: float) -> Scene:
    run_id, phase, since = "silent-mole-7d3e91c05ab2", "optimizer_step", now - 41 * MINUTE
    loop = Loop(pace=310.0, reward=0.05, rise=0.0106).entering(phase, 17, since)
    record = in_loop(run_id, loop, phase, 17, since) | timings(loop, range(1, 18), phase)
    logs = training_log(run_id, loop, range(14, 18), since)
    logs += health_checks(now - 40 * MINUTE, now - 4)
    return Scene(
        SampleRun(run_id, "live, stuck: nothing but health checks for 40m", "stuck", record),
        record["created_at"],
        app_of(record, logs),
        loop.rollouts(range(1, 18)),
    )


def long_evaluation(now: float) -> Scene:
    run_id, phase, since = "patient-tortoise-2b84f6d10c9e", "evaluate_rollouts", now - 17 * MINUTE
    loop = Loop(pace=280.0, reward=0.21, rise=0.0137).entering("generate_rollouts", 21, since)
    record = in_loop(run_id, loop, phase, 21, since) | timings(loop, range(1, 22), phase)
    logs = training_log(run_id, loop, range(18, 21), since)
    for tick in range(50):
        at = since + 20 + tick * 20
        logs += [decode_batch(at, 30), bar(at + 5, "Eval aime", 3 + 7 * tick, 480, at - since)]
    return Scene(
        SampleRun(run_id, "live, its record silent, its log not", "running", record),
        record["created_at"],
        app_of(record, logs),
        loop.rollouts(range(1, 21)),
    )


# ---- What only Modal knows of them ---------------------------------------------------------------


def idle_in_a_hang(now: float) -> Scene:
    run_id, phase, since = "frozen-ibex-4b7c9d2e6f18", "optimizer_step", now - 26 * MINUTE
    loop = Loop(pace=300.0, reward=0.19, rise=0.012).entering(phase, 19, since)
    record = in_loop(run_id, loop, phase, 19, since) | timings(loop, range(1, 20), phase)
    train = LocalFunction("", "train", gpus=8, containers=2)
    train.series = utilization((30, 94.0), (24, 0.0))
    return Scene(
        SampleRun(run_id, "live, stuck: GPUs that run nothing", "stuck", record),
        record["created_at"],
        app_of(record, training_log(run_id, loop, range(14, 20), since + 60), train=train),
        loop.rollouts(range(1, 20)),
    )


def busy_in_a_hang(now: float) -> Scene:
    run_id, phase, since = "spinning-newt-d83f5a1c7e09", "optimizer_step", now - 24 * MINUTE
    loop = Loop(pace=300.0, reward=0.17, rise=0.013).entering(phase, 14, since)
    record = in_loop(run_id, loop, phase, 14, since) | timings(loop, range(1, 15), phase)
    train = LocalFunction("", "train", gpus=8, containers=2)
    train.series = utilization((60, 100.0))
    return Scene(
        SampleRun(run_id, "live, stuck: a collective that spins at 100 %", "stuck", record),
        record["created_at"],
        app_of(record, training_log(run_id, loop, range(10, 15), since + 60), train=train),
        loop.rollouts(range(1, 15)),
    )


def no_container(now: float) -> Scene:
    run_id, phase, since = "stranded-seal-7a1e5c93b0d4", "generate_rollouts", now - 19 * MINUTE
    loop = Loop(pace=260.0, reward=0.22, rise=0.011).entering(phase, 11, since)
    record = in_loop(run_id, loop, phase, 11, since) | timings(loop, range(1, 12), phase)
    logs = training_log(run_id, loop, range(6, 12), since + 30)
    logs += [wrote(since + 40, DRIVER, "Runner interrupted due to worker preemption.", stderr=True)]
    train = LocalFunction("", "train", gpus=8, backlog=1, container_errors=1)
    return Scene(
        SampleRun(run_id, "waiting: preempted, and no container for it yet", "waiting", record),
        record["created_at"],
        app_of(record, logs, train=train),
        loop.rollouts(range(1, 11)),
    )


def crash_loop(now: float) -> Scene:
    """Four attempts, each of which ends where it loads the model."""
    run_id, starts = (
        "looping-stoat-0e94b7f2d6a5",
        [now - 60 * minutes for minutes in (53, 40, 27, 14)],
    )
    record = record_of(
        run_id,
        starts[0] - 4 * MINUTE,
        framework_status="initialize_rollouts",
        updated_at=starts[-1] + 45,
        metadata={
            "framework_progress": {
                "phase": "initialize_rollouts",
                "is_active": True,
                "updated_at": starts[-1] + 45,
            },
            "attempt_count": 4,
            "attempt_starts": starts,
            "last_attempt_started_at": starts[-1],
        },
    )
    logs = [
        entry
        for start in starts
        for entry in (
            *setup_log(run_id, "Qwen3-4B", start, start + 120)[:12],
            wrote(
                start + 100,
                TRAIN,
                "Traceback (most recent call last):",
                '  File "/opt/slime/backends/megatron_utils/model.py", line 212, in load',
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 19.40 GiB. GPU 0 "
                "has a total capacity of 79.11 GiB of which 7.02 GiB is free.",
                stderr=True,
            ),
        )
    ]
    train = LocalFunction("", "train", gpus=8, containers=1, container_errors=3)
    train.series = utilization((10, 0.0))
    return Scene(
        SampleRun(run_id, "live, stuck: every attempt ends the same way", "stuck", record),
        record["created_at"],
        app_of(record, logs, train=train),
    )


def killed(now: float, run_id: str, about: str, status: str, logs: list[LogEntry]) -> Scene:
    """A run whose container Modal ended, which its log doesn't say."""
    phase, stopped_at = "generate_rollouts", now - 21 * MINUTE
    loop = Loop(pace=310.0, reward=0.2, rise=0.011).entering(phase, 16, stopped_at - MINUTE)
    since = loop.phases(16)[phase].start
    record = in_loop(run_id, loop, phase, 16, since) | timings(loop, range(1, 17), phase)
    call = LocalCall(status, record["created_at"] + 60, stopped_at - record["created_at"])
    train = LocalFunction("", "train", gpus=8, calls=[call], container_errors=1)
    entries = training_log(run_id, loop, range(11, 17), stopped_at) + logs
    return Scene(
        SampleRun(run_id, about, "died", record),
        record["created_at"],
        app_of(record, entries, "stopped", stopped_at=stopped_at, train=train),
        loop.rollouts(range(1, 16)),
    )


def timed_out(now: float) -> Scene:
    about = "died: Modal's timeout, of which the log says nothing"
    return killed(now, "weary-bison-9c2d7e4f1a60", about, "timeout", [])


def out_of_memory(now: float) -> Scene:
    about = "died: killed by the kernel, the log holds but an echo"
    echo = wrote(
        now - 21 * MINUTE,
        DRIVER,
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        stderr=True,
    )
    return killed(now, "hungry-dingo-5f8b1d3c9e72", about, "kernel oom kill", [echo])


# ---- Live ones that are well --------------------------------------------------------------------


def healthy_new_shape(now: float) -> Scene:
    run_id, phase, since = "brisk-otter-5c0d9e8f7a61", "optimizer_step", now - 6
    loop = Loop(pace=240.0, reward=0.249, rise=0.0118).entering(phase, 30, since)
    rollouts = loop.rollouts(range(1, 31))
    record = in_loop(run_id, loop, phase, 30, now - 4, total=100)
    newest = rollouts[-1]
    record["metadata"]["latest_rollout"] = {
        "rollout_id": newest.rollout_id,
        "mean": newest.mean,
        "total": newest.total,
        "created_at": newest.created_at,
    }
    record["config"]["metrics"] = record["config"].pop("wandb") | {"run_id": "br0t7e5c"}
    return Scene(
        SampleRun(run_id, "live and well, newer shape of record", "running", record),
        record["created_at"],
        app_of(record, training_log(run_id, loop, range(23, 31), now), "ephemeral"),
        rollouts,
        substep_files(run_id, loop, range(1, 31), phase),
    )


def preparing_the_dataset(now: float) -> Scene:
    run_id, phase, since = "misty-falcon-e47a0b6c18d3", "prepare_dataset", now - 6 * MINUTE
    record = record_of(
        run_id,
        now - 13 * MINUTE,
        framework_status=phase,
        updated_at=now - 9,
        metadata={"framework_progress": {"phase": phase, "is_active": True, "updated_at": now - 9}},
    )
    logs = [
        wrote(since - 4 * MINUTE, DRIVER, f"Training run id: {run_id}"),
        wrote(
            since - 3 * MINUTE, DRIVER, "Fetching 14 files: 100%|██████████| 14/14 [00:41<00:00]"
        ),
        wrote(since - 5, DRIVER, "Converted Qwen/Qwen3-4B to torch_dist in 88.4s"),
        wrote(since, DRIVER, "Downloading dataset openai/gsm8k (main, train) ..."),
    ]
    for tick in range(1, 179):
        done = tick * 41
        line = f"Tokenizing prompts: {done}/7473 examples, {done * 173} tokens"
        logs.append(wrote(since + 2 * tick, DRIVER, line))
    return Scene(
        SampleRun(run_id, "live, still in its one-time set-up", "running", record),
        record["created_at"],
        app_of(record, logs),
    )


def saving_a_checkpoint(now: float) -> Scene:
    run_id, phase, since = "silver-lynx-90f3c7be5d14", "checkpoint_save", now - 35
    loop = Loop(pace=330.0, reward=0.309, rise=0.0111, shares=SAVING_STEP).entering(
        phase, 20, since
    )
    record = in_loop(run_id, loop, phase, 20, since) | timings(loop, range(1, 21), phase)
    logs = training_log(run_id, loop, range(15, 21), now)
    logs += [
        wrote(since + 5 * shard, TRAIN, f"saving shard {shard}/8 of iter_0000019 to /checkpoints")
        for shard in range(1, 7)
    ]
    return Scene(
        SampleRun(run_id, "live and well, saving a checkpoint", "running", record),
        record["created_at"],
        app_of(record, logs, "deployed"),
        loop.rollouts(range(1, 21)),
    )


def syncing_weights(now: float) -> Scene:
    run_id, phase, since = "amber-heron-3f5a7c9e1b20", "weight_sync", now - 2
    loop = Loop(pace=200.0, reward=0.2, rise=0.0186).entering(phase, 8, since)
    record = in_loop(run_id, loop, phase, 8, since) | timings(loop, range(1, 9), phase)
    record["config"] = config(50, "hq3v8k2n")
    return Scene(
        SampleRun(run_id, "live and well; shares its W&B id with amber-hawk", "running", record),
        record["created_at"],
        app_of(record, training_log(run_id, loop, range(1, 9), now), "ephemeral"),
        loop.rollouts(range(1, 9)),
    )


def resumed(now: float) -> Scene:
    """Ran to step 23, was restarted twice, and goes on from the checkpoint after step 19."""
    run_id, phase, since = "stubborn-mule-c81d4e2f60b7", "generate_rollouts", now - 95
    loop = Loop(pace=260.0, reward=0.229, rise=0.0086).entering(phase, 26, since)
    restarted_at = loop.start_of(20) - 8 * MINUTE
    before = Loop(pace=260.0, reward=0.14, rise=0.0119).entering(
        phase, 24, restarted_at - 40 * MINUTE
    )
    record = in_loop(run_id, before, phase, 26, now - 20) | timings(loop, range(20, 27), phase)
    record["metadata"] |= {
        "attempt_count": 3,
        "attempt_starts": [record["started_at"], restarted_at - 20 * MINUTE, restarted_at],
        "last_attempt_started_at": restarted_at,
        "resumed_from_checkpoint": True,
        "resume_checkpoint_name": "iter_0000019",
        "resume_from_iteration": 19,
        "wandb_attempts": [
            {"attempt": number, "run_id": f"{run_id}-a{number}", "entity": "lab"}
            for number in (2, 3)
        ],
    }
    logs = [
        wrote(restarted_at, DRIVER, "Attempt 3: resuming from /checkpoints/iter_0000019"),
        *[entry for step in range(20, 27) for entry in step_log(loop, step) if entry.at <= now],
    ]
    # The rows of the new attempt come first: the later row of an id isn't always the newer one.
    again = loop.rollouts(range(20, 26))
    return Scene(
        SampleRun(run_id, "live and well, third attempt, from a checkpoint", "running", record),
        record["created_at"],
        app_of(record, setup_log(run_id, "Qwen3-4B", restarted_at, loop.start_of(20)) + logs),
        (*again, *before.rollouts(range(1, 24))),
    )


def miles(now: float) -> Scene:
    run_id, phase = "gentle-panda-b6920d7f3ce8", "training"
    loop = Loop(pace=420.0, reward=-0.342, rise=0.054).entering("generate_rollouts", 7, now - 130)
    record = in_loop(run_id, loop, phase, 7, now - 15, total=0)
    record |= {"framework": "miles", "config": config(0, None, model="zai-org/GLM-4.5-Air")}
    rollouts = loop.rollouts(range(1, 7))
    return Scene(
        SampleRun(
            run_id, "live and well, miles: knows no total and no finer phase", "running", record
        ),
        record["created_at"],
        app_of(record, training_log(run_id, loop, range(1, 8), now)),
        [replace(rollout, rollout_time=None) for rollout in rollouts],
    )


# ---- Those that have not begun ------------------------------------------------------------------


def queued(now: float) -> Scene:
    run_id = "early-wren-16be5f0a9d73"
    created_at = now - 6 * MINUTE
    record = record_of(
        run_id,
        created_at,
        modal_app_id="",
        modal_app_url="",
        function_call_id="",
        started_at=None,
        framework_status="initializing",
    )
    return Scene(SampleRun(run_id, "queued: no app yet", "queued", record), created_at)


def waiting_for_a_gpu(now: float) -> Scene:
    run_id, phase, since = "thirsty-camel-48c2a6e9f01d", "download_model", now - 4 * MINUTE
    record = record_of(
        run_id,
        now - 7 * MINUTE,
        framework_status=phase,
        updated_at=since,
        metadata={"framework_progress": {"phase": phase, "is_active": False, "updated_at": since}},
    )
    logs = [
        wrote(since - 20, DRIVER, f"Training run id: {run_id}"),
        wrote(since, DRIVER, "download_model: waiting for 8 x H100 in us-east ..."),
    ]
    return Scene(
        SampleRun(run_id, "waiting for a GPU", "waiting", record),
        record["created_at"],
        app_of(record, logs, "initializing", train=LocalFunction("", "train", gpus=8, backlog=1)),
    )


# ---- Those that have ended, one way or another --------------------------------------------------


def died(now: float) -> Scene:
    run_id, phase, stopped_at = "hollow-crane-f20e8d6b4a95", "optimizer_step", now - 14 * MINUTE
    loop = Loop(pace=300.0, reward=0.198, rise=0.0126).entering(phase, 15, stopped_at - MINUTE)
    since = loop.phases(15)[phase].start
    record = in_loop(run_id, loop, phase, 15, since) | timings(loop, range(1, 16), phase)
    logs = training_log(run_id, loop, range(11, 16), since) + oom_log(since + 12)
    return Scene(
        SampleRun(run_id, "died: out of memory, but the status says running", "died", record),
        record["created_at"],
        app_of(record, logs, "stopped", stopped_at=stopped_at, stopped_by="maya"),
        loop.rollouts(range(1, 16)),
    )


def completed(now: float) -> Scene:
    run_id, phase, ended_at = "golden-finch-0a6d3b9c72e1", "weight_sync", now - 5 * HOUR
    loop = Loop(pace=230.0, reward=0.17, rise=0.0139).entering(phase, 40, ended_at - 30)
    record = in_loop(run_id, loop, phase, 40, ended_at, total=40)
    record |= timings(loop, range(1, 41)) | ended("completed", ended_at, duration_seconds=9930.0)
    return Scene(
        SampleRun(run_id, "completed 5h ago", "completed", record),
        record["created_at"],
        app_of(
            record,
            [
                *training_log(run_id, loop, range(36, 41), ended_at),
                wrote(ended_at, DRIVER, "Training finished: 40 rollouts"),
            ],
            "stopped",
            stopped_at=ended_at + 20,
        ),
        loop.rollouts(range(1, 41)),
        train_result(run_id, 0.708),
    )


def status_lags(now: float) -> Scene:
    run_id, phase, stopped_at = "swift-marten-d59c1e7a3b06", "weight_sync", now - 3 * MINUTE
    loop = Loop(pace=250.0, reward=0.223, rise=0.0114).entering(phase, 40, stopped_at - 30)
    record = in_loop(run_id, loop, phase, 40, stopped_at - 30, total=40)
    record |= timings(loop, range(1, 41))
    return Scene(
        SampleRun(
            run_id,
            "finished: a result is there, the status still says running",
            "completed",
            record,
        ),
        record["created_at"],
        app_of(
            record,
            training_log(run_id, loop, range(36, 41), stopped_at),
            "stopped",
            stopped_at=stopped_at,
        ),
        loop.rollouts(range(1, 41)),
        train_result(run_id, 0.664),
    )


def failed(now: float) -> Scene:
    run_id, phase, ended_at = "crimson-badger-8e17f4a0d26c", "compute_log_probs", now - 2 * HOUR
    loop = Loop(pace=270.0, reward=0.208, rise=0.0122).entering(phase, 9, ended_at - 31 * MINUTE)
    since = loop.phases(9)[phase].start
    record = in_loop(run_id, loop, phase, 9, since) | timings(loop, range(1, 10), phase)
    record |= ended("failed", ended_at, duration_seconds=5310.0, error_message=long_error())
    logs = training_log(run_id, loop, range(4, 10), since + 1) + nccl_log(since + 30 * MINUTE)
    *rollouts, bad, partial = loop.rollouts(range(1, 10))
    counts = {"remote_error": 256, "response_missing": 0, "total_samples": 256}
    rollouts += [
        replace(bad, mean=math.nan, errors={**counts, "verdict": "all_infra_failure"}),
        replace(
            partial,
            errors={**counts, "remote_error": 31, "verdict": "partial_infra_failure"},
        ),
    ]
    return Scene(
        SampleRun(run_id, "failed: NCCL timeout, with a long error", "failed", record),
        record["created_at"],
        app_of(record, logs, "stopped", stopped_at=ended_at + 15),
        rollouts,
    )


def long_error() -> str:
    """A traceback of many frames, in colour, with the cause in its last line."""
    frames = [
        f'  File "\x1b[35m/opt/slime/ray/actor_group.py\x1b[0m", line \x1b[35m{number}\x1b[0m, '
        "in async_train"
        for number in range(100, 140)
    ]
    return "\n".join(
        [
            "\x1b[31mray.exceptions.ActorDiedError\x1b[0m: The actor died unexpectedly.",
            "Traceback (most recent call last):",
            *frames,
            "torch.distributed.DistBackendError: NCCL watchdog: collective operation timeout",
        ]
    )


def cancelled(now: float) -> Scene:
    run_id, phase, ended_at = "dusty-gecko-6c9b2f81e0d4", "generate_rollouts", now - 26 * HOUR
    loop = Loop(pace=290.0, reward=0.168, rise=0.015).entering(phase, 4, ended_at - HOUR)
    since = loop.phases(4)[phase].start
    record = in_loop(run_id, loop, phase, 4, since) | timings(loop, range(1, 5), phase)
    record |= ended("cancelled", ended_at)
    record["metadata"]["terminal_reason"] = "stale_modal_app_terminated"
    logs = training_log(run_id, loop, range(1, 5), since + 90)
    return Scene(
        SampleRun(run_id, "cancelled by a reconciler: its app was gone", "cancelled", record),
        record["created_at"],
        app_of(record, logs, "stopped", stopped_at=since + 100),
        loop.rollouts(range(1, 4)),
    )


def stopped(now: float) -> Scene:
    run_id, phase, ended_at = "amber-hawk-b4d2f0e8a617", "generate_rollouts", now - 4 * HOUR
    loop = Loop(pace=200.0, reward=0.2, rise=0.0175).entering(phase, 6, ended_at - 50)
    since = loop.phases(6)[phase].start
    record = in_loop(run_id, loop, phase, 6, since) | timings(loop, range(1, 7), phase)
    record |= ended("stopped", ended_at, config=config(50, "hq3v8k2n"))
    return Scene(
        SampleRun(run_id, "stopped by hand; amber-h finds two runs", "stopped", record),
        record["created_at"],
        app_of(
            record,
            training_log(run_id, loop, range(1, 7), ended_at),
            "stopped",
            stopped_at=ended_at,
            stopped_by="maya",
        ),
        loop.rollouts(range(1, 6)),
    )


# ---- Odd ones -----------------------------------------------------------------------------------


def malformed_app_id(now: float) -> Scene:
    run_id, phase, since = "lost-sparrow-27fa0c5e8b39", "generate_rollouts", now - 35 * MINUTE
    loop = Loop(pace=240.0, reward=0.21, rise=0.02).entering(phase, 3, since)
    record = in_loop(run_id, loop, phase, 3, since) | timings(loop, range(1, 4), phase)
    record |= {"modal_app_id": "app_01HZX4", "modal_app_url": ""}
    return Scene(
        SampleRun(run_id, "unknown: its app id is malformed", "unknown", record),
        record["created_at"],
        rollouts=loop.rollouts(range(1, 3)),
    )


def old_record(now: float) -> Scene:
    """A record from before today's shape: other keys, wrapped values, times as ISO 8601."""
    run_id = "6f1d2c3b-0a9e-4b57-8c1d-2e3f4a5b6c7d"
    app_id, created_at = app_id_of(run_id), now - 20 * DAY
    loop = Loop(pace=320.0, reward=0.098, rise=0.02).entering(
        "generate_rollouts", 1, created_at + 20 * MINUTE
    )
    ended_at = loop.start_of(13)
    started_at = datetime.fromtimestamp(created_at + 90, UTC)
    settings = config(12, None, model="Qwen/Qwen2.5-3B")
    settings["preset"] = settings.pop("recipe")
    record = {
        "run_id": run_id,
        "modal_app_id": f"https://modal.com/apps/lab/main/{app_id}",
        "modal_app_url": "",
        "framework": {"value": "slime", "source": "dict"},
        "status": {"value": "completed", "source": "dict"},
        "created_at": datetime.fromtimestamp(created_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "started_at": {"value": started_at.strftime("%Y-%m-%dT%H:%M:%S"), "source": "dict"},
        "ended_at": str(ended_at),
        "config": settings,
        "metadata": {"framework_progress": {"current": "12", "total": {"value": "12"}}},
    }
    app = LocalApp(
        app_id=app_id,
        description=run_id,
        state="stopped",
        created_at=created_at,
        stopped_at=ended_at,
        logs=training_log(run_id, loop, range(8, 13), ended_at),
    )
    return Scene(
        SampleRun(run_id, "completed weeks ago, oldest shape of record", "completed", record),
        created_at,
        app,
        loop.rollouts(range(1, 13)),
    )


# ---- The gym ------------------------------------------------------------------------------------

SCENES = (
    stuck_on_the_judge,
    only_health_checks,
    long_evaluation,
    idle_in_a_hang,
    busy_in_a_hang,
    no_container,
    crash_loop,
    timed_out,
    out_of_memory,
    healthy_new_shape,
    preparing_the_dataset,
    saving_a_checkpoint,
    syncing_weights,
    resumed,
    miles,
    queued,
    waiting_for_a_gpu,
    died,
    completed,
    status_lags,
    failed,
    cancelled,
    stopped,
    malformed_app_id,
    old_record,
)


def sample_gym(now: float) -> Gym:
    """The gym as it stands at `now`, seconds since the epoch."""
    # Whole seconds, so that the times in records and logs are as plain as real ones.
    scenes = [scene(math.floor(now)) for scene in SCENES]
    files: dict[str, bytes] = {}
    for scene in scenes:
        files |= run_files(scene)
    return Gym(
        runs=tuple(scene.run for scene in scenes),
        files=files | summaries(scenes),
        apps=tuple(scene.app for scene in scenes if scene.app is not None),
    )


def run_files(scene: Scene) -> dict[str, bytes]:
    """A run's own files; a rollout recorded twice has one file, the newer."""
    run = scene.run
    files = {f"training-runs/{run.run_id}.json": to_json(run.record), **scene.files}
    for rollout in sorted(scene.rollouts, key=lambda rollout: rollout.created_at):
        path = f"training-rollouts/{run.run_id}__{rollout.rollout_id:08d}.json"
        files[path] = to_json(rollout.canonical(run.run_id))
    return files


def summaries(scenes: Iterable[Scene]) -> dict[str, bytes]:
    """The two caches over all runs."""
    by_age = sorted(scenes, key=lambda scene: scene.created_at, reverse=True)
    rows = [rollout.row(scene.run.run_id) for scene in by_age for rollout in scene.rollouts]
    rows.sort(key=lambda row: (row["training_run_id"], row["rollout_id"]))
    records = [scene.run.record for scene in by_age]
    return {
        "training-runs-summary/summary.json": to_json({"items": records}),
        "training-rollouts-summary/summary.json": to_json({"items": rows}),
    }
