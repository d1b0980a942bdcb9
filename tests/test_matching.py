"""Matching: what a scrap of an id means."""

from typing import Any

import pytest

import run_progress as tool

FROG = "elastic-frog-a1b2c3d4e5f6"
HERON = "amber-heron-0a1b2c3d4e5f"
HAWK = "amber-hawk-f0e1d2c3b4a5"


def row(app_id: str, *wandb_ids: str, **fields: str) -> dict[str, Any]:
    attempts = [{"run_id": wandb_id} for wandb_id in wandb_ids]
    return {"modal_app_id": app_id, "metadata": {"metric_attempts": attempts}, **fields}


SWEEP = {"group_id": "lr-sweep"}
ROWS = {
    FROG: row("ap-0123456789abcdefABCDEF", "x7k2m9qp"),
    HERON: row("ap-1111111111111111111111", "amber-he", "shared", function_call_id="fc-1", **SWEEP),
    HAWK: row("ap-2222222222222222222222", "amber-ha", "shared", function_call_id="fc-2", **SWEEP),
}


@pytest.mark.parametrize(
    ("typed", "run_ids"),
    [
        (FROG, {FROG}),
        ("ELASTIC-FROG", {FROG}),
        ("frog-a1b", {FROG}),
        ("a1b2c3d4e5f6", {FROG}),
        ("ap-0123456789abcdefABCDEF", {FROG}),
        ("x7k2m9qp", {FROG}),
        ("amber-", {HERON, HAWK}),
        ("shared", {HERON, HAWK}),
        ("fc-2", {HAWK}),
        ("LR-Sweep", {HERON, HAWK}),
        ("lr-swee", set()),
        ("amber-ha", {HAWK}),
        ("https://modal.com/id/ap-0123456789abcdefABCDEF", {FROG}),
        ("https://modal.com/apps/lab/main/ap-0123456789abcdefABCDEF?tab=logs#x", {FROG}),
        ("modal.com/id/ap-0123456789abcdefABCDEF/", {FROG}),
        ("https://wandb.ai/lab/gsm8k/runs/x7k2m9qp", {FROG}),
        ("https://wandb.ai/lab/gsm8k/runs/x7k2m9qp/overview", {FROG}),
        ("  elastic-frog ", {FROG}),
        ("<https://wandb.ai/lab/gsm8k/runs/x7k2m9qp>,", {FROG}),
        ("HTTPS://WANDB.AI/runs/runs/RUNS/X7K2M9QP/overview", {FROG}),
        (f"https://wandb.ai/lab/gsm8k/groups/{FROG}/workspace", {FROG}),
        ("https://modal.com/apps/ap-team/main/ap-0123456789abcdefABCDEF", {FROG}),
        ("../elastic-frog", set()),
        ("*", set()),
        ("\x1b[31m", set()),
        ("elastc-frog", set()),
        ("e" * 5000, set()),
    ],
)
def test_the_first_tier_in_which_anything_matches_decides(typed: str, run_ids: set[str]) -> None:
    assert set(tool.match_runs(tool.read_query(typed), ROWS, ())) == run_ids


@pytest.mark.parametrize("block", ["wandb", "metrics"])
def test_no_wandb_id_is_made_of_the_run_id_of_a_row(block: str) -> None:
    toad = "elastic-toad-c3d4e5f60718"
    rows = {FROG: row("", FROG[:8]), toad: {"config": {block: {"project": "gsm8k"}}}}
    assert tool.match_runs(FROG[:8], rows, ()) == (FROG,)


def test_a_run_without_a_row_is_matched_by_its_id() -> None:
    assert tool.match_runs("amber-h", {HERON: ROWS[HERON]}, [HAWK]) == (HAWK, HERON)


@pytest.mark.parametrize(
    "typed", ["https://", "https://?", "https:///", "https://modal.com/", "   "]
)
def test_a_url_without_anything_in_it_is_no_query(typed: str) -> None:
    assert tool.read_query(typed) == ""


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        (FROG, True),
        ("6f1d2c3b-0a9e-4b57-8c1d-2e3f4a5b6c7d", True),
        ("frog-a1b2c3d4e5f6", False),
        ("../elastic-frog-a1b2c3d4e5f6", False),
        ("elastic-frog-a1b2c3d4e5f6.json", False),
    ],
)
def test_only_what_can_be_a_whole_run_id_is_asked_for_directly(query: str, whole: bool) -> None:
    assert bool(tool.FULL_RUN_ID.fullmatch(query)) == whole


@pytest.mark.parametrize("query", ["elastc-frog", "elastic-forg", "elastic-frog-a1b2c3d4e5f7"])
def test_a_slip_of_the_fingers_is_met_with_the_nearest_id(query: str) -> None:
    assert tool.nearest_runs(query, [HAWK, FROG, HERON]) == (FROG,)


def test_nothing_is_suggested_for_what_is_like_no_id() -> None:
    assert tool.nearest_runs("zzzz", [FROG, HAWK]) == ()
    assert tool.nearest_runs("elastic-frog" * 500, [FROG]) == ()
