"""Credentials are masked wherever text is shown; all else is left as it came."""

import json
import random
import string
import time
from typing import Any

import pytest

import run_progress as tool
from conftest import Tool
from local_modal import LocalModal, LogEntry

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
LONG = "Zq8Xw2Lm5Rt9Kp3Vn7Bd1Fh6Jc4Gs0Ya"  # 32 letters and digits, made up for these tests

MASKED = [
    (f"token ak-{LONG} used", "token ak-Z… used"),
    (f"as-{LONG[:20]}", "as-Z…"),
    (f"Modal-Key: wk-{LONG}", "Modal-Key: wk-Z…"),
    (f"Modal-Secret: ws-{LONG}", "Modal-Secret: ws-Z…"),
    (f"(Actor pid=7) HF_TOKEN=hf_{LONG}", "(Actor pid=7) HF_TOKEN=hf_Z…"),
    (f"login with hf_{LONG}.", "login with hf_Z…."),
    (f"key sk-proj-{LONG[:12]}_{LONG[:12]}", "key sk-p…"),
    (f"git clone https://x:ghp_{LONG}@github.com/a/b", "git clone https://x:ghp_…@github.com/a/b"),
    (f"github_pat_{LONG}", "gith…"),
    (f"Authorization: Bearer {LONG}", "Authorization: Bearer Zq8X…"),
    (f'"Authorization": "Bearer {LONG[:16]}"', '"Authorization": "Bearer Zq8X…"'),
    (f"WANDB_API_KEY={LONG}", "WANDB_API_KEY=Zq8X…"),
    (f"export OPENAI_API_KEY='{LONG}'", "export OPENAI_API_KEY='Zq8X…'"),
    (f'{{"wandb_api_key": "{LONG}", "x": 1}}', '{"wandb_api_key": "Zq8X…", "x": 1}'),
    (f"{{'judge_api_key': '{LONG}', 'n': 2}}", "{'judge_api_key': 'Zq8X…', 'n': 2}"),
    (f"Args(api_key='{LONG}', lr=1e-6)", "Args(api_key='Zq8X…', lr=1e-6)"),
    (f"api_key: str = '{LONG}'", "api_key: str = 'Zq8X…'"),
    (f"MODAL_TOKEN_SECRET={LONG}", "MODAL_TOKEN_SECRET=Zq8X…"),
    ("AWS_SECRET=wJalr/XUtnFEMI/K7MDENG+bPxRfi", "AWS_SECRET=wJal…"),
    ("DB_PASSWORD=correct-horse-battery", "DB_PASSWORD=corr…"),
    (f"access_token={LONG}&next=1", "access_token=Zq8X…&next=1"),
    (f'auth_token = "{LONG}"', 'auth_token = "Zq8X…"'),
    (f"framework_status_token: {LONG}", "framework_status_token: Zq8X…"),
    (f"hf_token={LONG}", "hf_token=Zq8X…"),
    (f"GITHUB_TOKEN={LONG}", "GITHUB_TOKEN=Zq8X…"),
    (rf"{{\"api_key\": \"{LONG}\"}}", r"{\"api_key\": \"Zq8X…\"}"),
    (f"API_KEY=\x1b[33m{LONG}\x1b[0m", "API_KEY=\x1b[33mZq8X…\x1b[0m"),
    (f"\x1b[32mhf_{LONG}\x1b[0m", "\x1b[32mhf_Z…\x1b[0m"),
    ("psql postgresql://svc:S3cretPassw0rd@db:5432/x", "psql postgresql://svc:S3cr…@db:5432/x"),
    (f"['train.py', '--wandb-key', '{LONG}']", "['train.py', '--wandb-key', 'Zq8X…']"),
    (rf'{{\\"WANDB_API_KEY\\": \\"{LONG}\\"}}', r'{\\"WANDB_API_KEY\\": \\"Zq8X…\\"}'),
    (f"('WANDB_API_KEY', '{LONG}')", "('WANDB_API_KEY', 'Zq8X…')"),
    (f"wandb login {LONG}", "wandb login Zq8X…"),
    (f"ghs_{LONG} glpat-{LONG} xoxb-{LONG}", "ghs_… glpa… xoxb…"),
    (f"'AWS_SECRET_ACCESS_KEY': '{LONG}'", "'AWS_SECRET_ACCESS_KEY': 'Zq8X…'"),
    (f"AWS_SESSION_TOKEN={LONG}", "AWS_SESSION_TOKEN=Zq8X…"),
    (f"x-api-key: {LONG}", "x-api-key: Zq8X…"),
    (f"python train.py --wandb-key {LONG} --lr 1", "python train.py --wandb-key Zq8X… --lr 1"),
    (f"--sglang-api-key={LONG}", "--sglang-api-key=Zq8X…"),
    (f"  wandb_key ................ {LONG}", "  wandb_key ................ Zq8X…"),
    (f"{{'WANDB_API_KEY': b'{LONG}'}}", "{'WANDB_API_KEY': b'Zq8X…'}"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic dXNl…"),
    (f"with AIza{LONG}", "with AIza…"),
    (f"two: hf_{LONG} and password={LONG}", "two: hf_Z… and password=Zq8X…"),
    (f"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{LONG}", "jwt eyJh…"),
    (f'{{"jwt":"eyJhbGciOiJSUzI1NiJ9.e30.{LONG}_-{LONG}"}}', '{"jwt":"eyJh…"}'),
    (f"?sig=eyJlbmMiOiJBMTI4R0NNIn0..{LONG}.{LONG}.{LONG}&x=1", "?sig=eyJl…&x=1"),
    (f"\x1b[32mBearer {LONG}", "\x1b[32mBearer Zq8X…"),
    (f"Authorization: Token {LONG}", "Authorization: Token Zq8X…"),
    (f"DB_PASSWD={LONG}", "DB_PASSWD=Zq8X…"),
    (f"JUDGE_API_TOKEN: {LONG}", "JUDGE_API_TOKEN: Zq8X…"),
    (f"'private_key': '{LONG}'", "'private_key': 'Zq8X…'"),
    (
        f"https://x.y/a?X-Amz-Signature={LONG}&X-Amz-Expires=9",
        "https://x.y/a?X-Amz-Signature=Zq8X…&X-Amz-Expires=9",
    ),
    (
        f"for url: https://x.y/a?Expires=1&Signature={LONG}~__",
        "for url: https://x.y/a?Expires=1&Signature=Zq8X…",
    ),
    (f"'https://x.y/a?sp=r&sig={LONG}%3D'", "'https://x.y/a?sp=r&sig=Zq8X…'"),
]

HEADER = "eyJhbGciOiJIUzI1NiJ9"
JWTS = [
    f"{HEADER}.eyJzdWIiOiIxIn0.{LONG}",
    f"{HEADER}.eyJzdWIiOiIxIn0.c2ln",  # signed in short, or not at all
    f"{HEADER}.eyJzdWIiOiIxIn0.",
    f"{HEADER}.e30.{LONG}",
    f"{HEADER}..{LONG}",  # its payload is elsewhere
    f"{HEADER}.{LONG}.48V1_ALb6US04U3b.{LONG}{LONG}.XFBoMYUZodetZdvT",  # a JWE
    f"{HEADER}..48V1_ALb6US04U3b.eA.XFBoMYUZodetZdvT",
]
AROUND_JWTS = [
    ("", ""),
    ("session ", " opened"),
    ("(Actor pid=7) 'jwt': '", "', 'n': 1"),
    ("token=", "&next=1"),
    ("access_token=", ";"),
    ("id_token: ", ", next"),
    ("GET /score?jwt=", "&x=1 HTTP/1.1"),
    ("/login?to=%2Fscore%3Fjwt%3D", "%26x%3D1"),
    ("https://oauth2:", "@git.example/a.git"),
    ('{"token":"', '","x":1}'),
    (r'{"line": "{\"jwt\": \"', r'\"}"}'),
    (r"b'jwt:\n", r"\n'"),
    ("Authorization: Bearer ", '"'),
    ("Cookie: session=", "; path=/"),
    ("\x1b[33m", "\x1b[0m"),
]

LEFT_ALONE = [
    "eos_token='<|im_end|>' pad_token='<|endoftext|>'",
    "eos_token_id=151645 pad_token_id=151643 bos_token_id=None",
    "max_tokens=32768 max_response_tokens=16384",
    "special_tokens_map={'eos_token': '<|end_of_sentence_token|>'}",
    "hf_checkpoint=/root/models/Qwen3-4B-Instruct-2507",
    "hf_checkpoint='Qwen/Qwen3-4B-Instruct-2507'",
    "served as-is",
    "as-0123456789",
    "rows-0123456789abcdefghijklmnop",
    "wandb: Syncing run elastic-frog-a1b2c3d4e5f6",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:9fceb02d0ae598e95dc970b74767f19372d61af89fceb02d0ae598e95dc970b7",
    'WWW-Authenticate: Bearer error="invalid_token"',
    "Bearer token required for url https://lab--judge.modal.run/score",
    "Bearer authenticationrequired",
    "api_key=os.environ['OPENAI_API_KEY']",
    "api_key=get_secret_from_the_vault('openai')",
    "api_key=settings.credentials[0].value",
    "password=None secret=None api_key=''",
    "password: hunter2",
    "WANDB_API_KEY=$WANDB_API_KEY_FROM_VAULT",
    "secret=/run/secrets/wandb-api-key.txt",
    "password=configs/secrets/password-file.txt",
    "api_key=~/.config/wandb/settings-file",
    "task-ak-0123456789abcdefghijklmnop",
    "x_hf_0123456789abcdefghijklmnopqrstuvwxyz",
    "hf_transfer=1 hf_hub_download took 12.1s",
    "ap-0123456789abcdefABCDEF in-wrd5Ktt6HmXMgu9T6pyhAj",
    "throughput (token/s): 1604.20, #token: 33566, token usage: 0.16",
    "risk-adjusted-0123456789-return",
    "(RolloutManager pid=1188) rollout 14: {'rollout/rewards': 0.41, 'total_tokens': 18408.3}",
    "tokenizer_path=/root/models/tokenizer secret_sauce=False password_hash_rounds=12",
    "num_secrets=1234567890123456789",
    "POST http://10.0.0.4:15000/generate?user=a@b.example git+https://github.com/a/b@main_branch",
    "run `wandb login --relogin-with-a-new-key`",
    "--use-hf-token meta-llama/Llama-3.1-8B-Instruct --save-hub-token checkpoints-and-everything",
    "perf/session_token: 12345.67890123456 val/secret: 0.27182818284590454",
    "--prompt-key instruction_of_the_user --label-key the_expected_answer",
    "  wandb_key_path ................ None",
    "--wandb-key --use-wandb-for-every-rank",
    "Rollout generation:  25%|██        | 64/256 [01:06]\r\x1b[1A\r",
    "eyJust.a.name eyJhbGciOiJIUzI1NiJ9 keyJhbGciOi.eyJzdWIi.json",
    "",
]


@pytest.mark.parametrize(("line", "shown"), MASKED)
def test_a_credential_is_shown_by_its_first_four_characters(line: str, shown: str) -> None:
    assert tool.mask_secrets(line) == shown
    assert tool.mask_secrets(f"{line}\n{line}\r\n") == f"{shown}\n{shown}\r\n"


@pytest.mark.parametrize("jwt", JWTS)
@pytest.mark.parametrize(("before", "after"), AROUND_JWTS)
def test_a_jwt_is_a_credential_wherever_it_stands(jwt: str, before: str, after: str) -> None:
    assert tool.mask_secrets(f"{before}{jwt}{after}") == f"{before}eyJh…{after}"


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_is_no_credential_is_left_alone(line: str) -> None:
    assert tool.mask_secrets(line) == line


def test_bytes_that_are_no_text_come_through_as_they_were() -> None:
    raw = b"\xff\xfe caf\xc3\xa9 \x00\r" + bytes(range(128, 256)) + b"\n\x85\x0c\x1c\n"
    assert tool.masked(raw, tool.mask_secrets) == raw


def test_the_longest_tail_is_masked_in_no_time() -> None:
    letters = random.Random(1)
    words = ["".join(letters.choices(string.ascii_letters + "_-=:", k=12)) for _ in range(500)]
    lines = [" ".join(letters.choices(words, k=12)) for _ in range(20_000)]
    begun = time.process_time()
    tool.mask_secrets("\n".join(lines))
    # Generous: it takes a tenth of this, and a pattern gone quadratic takes minutes.
    assert time.process_time() - begun < 3
    begun = time.process_time()
    for line in (
        "api_key" * 50_000 + "secret=" * 20_000,
        "api_key=" * 20_000 + '"',
        "api_key=a" + "/" * 200_000,
        "-" * 200_000 + "key",
        "wandb_key " + "." * 200_000,
        "eyJhbGciOi." * 20_000,
        "eyJ" * 70_000,
    ):
        tool.mask_secrets(line)
    assert time.process_time() - begun < 3


def leaky(server: LocalModal) -> None:
    path = f"training-runs/{FROG}.json"
    record: dict[str, Any] = json.loads(server.files[path])
    record.update(status="failed", error_message=f"401\nsent WANDB_API_KEY={LONG}")
    server.files[path] = json.dumps(record).encode()
    app = server.apps[FROG_APP]
    app.logs.append(LogEntry(time.time(), f"env HF_TOKEN=hf_{LONG}\nno newline hf_{LONG}"))
    server.fault(
        "AppGetOrCreate", status="PERMISSION_DENIED", message=f"Bearer {LONG} is not allowed"
    )


def test_logs_errors_and_fields_show_no_credential(server: LocalModal, tool: Tool) -> None:
    leaky(server)
    shown = tool(FROG, "--tail", "3")
    assert LONG not in shown.out + shown.err
    assert "│ sent WANDB_API_KEY=Zq8X…" in shown.out
    assert "env HF_TOKEN=hf_Z…\n" in shown.out
    assert "no newline hf_Z…" in shown.out
    assert "Bearer Zq8X… is not allowed" in shown.line("app")
    assert "Bearer Zq8X… is not allowed" in shown.err


SECRETS = (f"hf_{LONG}", f"api_key='{LONG}'", f"Bearer {LONG}", f"x://me:{LONG}@db")


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [0, 950, 965, 980, 990, 999, 1990])
def test_no_text_is_cut_before_it_is_masked(secret: str, before: int) -> None:
    text = f"{'x' * before} {secret} and more"
    phases = {text: {"start": 1, "duration_s": 5}}
    record = {
        **dict.fromkeys(("framework", "status", "framework_status", "modal_app_url"), text),
        "error_message": f"{text}\n{text}",
        "metadata": {"terminal_reason": text, "resumed_from_checkpoint": text},
        "substep_times": {"1": phases, "2": phases},
        "step_times": {"1": {"duration_s": 5}},
        "config": {"wandb": {"run_id": text}, "model": {"model_name": text}},
    }
    run = tool.masked(tool.parse_run(record, FROG), tool.mask_secrets)
    assert LONG[:5] not in repr(run)
    assert len(run.phase or "") <= tool.FIELD_LIMIT + 1


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [80, 95, 990])
def test_a_query_that_holds_a_credential_is_not_shown_with_half_of_it(
    tool: Tool, secret: str, before: int
) -> None:
    shown = tool(f"{'x' * before} {secret}", "--no-logs")
    assert shown.status == 3
    assert LONG[:5].casefold() not in shown.err


def test_show_secrets_shows_them_whole(server: LocalModal, tool: Tool) -> None:
    leaky(server)
    shown = tool(FROG, "--tail", "3", "--show-secrets")
    assert f"│ sent WANDB_API_KEY={LONG}" in shown.out
    assert f"env HF_TOKEN=hf_{LONG}\n" in shown.out
    assert f"Bearer {LONG} is not allowed" in shown.err
