"""The official Python SDK, unchanged, against our binary.

Run by the test `interop::sdk` of the command line with a mock model behind it. TURNLANE names the
binary, TURNLANE_WORK a folder to work in. Prints one line per thing that worked; the first that does
not raises.
"""

import os
import sys
import threading
from pathlib import Path

from openai_codex import ApprovalMode, Codex, CodexConfig, CodexError, Sandbox
from openai_codex.client import CodexClient

BINARY = os.environ["TURNLANE"]
WORK = Path(os.environ["TURNLANE_WORK"])


def config(**more) -> CodexConfig:
    return CodexConfig(
        codex_bin=BINARY, config_overrides=('model="from-flag"',), cwd=str(WORK), **more
    )


def works(what: str) -> None:
    print(f"works: {what}", flush=True)


def text_of(result) -> str:
    return result.final_response


def start_run_and_read(codex: Codex) -> str:
    assert codex.metadata.serverInfo.version == "0.166.0", codex.metadata
    thread = codex.thread_start(cwd=str(WORK), sandbox=Sandbox.workspace_write)
    works("start")
    result = thread.run("say hello")
    assert text_of(result) == "hello from the model", result
    assert result.status.value == "completed", result
    assert result.usage is not None and result.usage.total.total_tokens > 0, result.usage
    works("run")
    read = thread.read(include_turns=True).thread
    kinds = [item.root.type for item in read.turns[0].items]
    assert kinds == ["userMessage", "agentMessage"], kinds
    works("read")
    return thread.id


def stream(codex: Codex, thread_id: str) -> None:
    thread = codex.thread_resume(thread_id)
    deltas, completed = [], None
    for event in thread.turn("say it in pieces").stream():
        if event.method == "item/agentMessage/delta":
            deltas.append(event.payload.delta)
        if event.method == "item/completed" and event.payload.item.root.type == "agentMessage":
            completed = event.payload.item.root.text
    assert len(deltas) > 1 and "".join(deltas) == completed == "one two three", (deltas, completed)
    works("stream")


def structured_output(codex: Codex, thread_id: str) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    result = codex.thread_resume(thread_id).run("answer as json", output_schema=schema)
    assert text_of(result) == '{"answer":42}', result
    works("structured output")


def steer_and_interrupt(codex: Codex, thread_id: str) -> None:
    thread = codex.thread_resume(thread_id)
    turn = thread.turn("run slowly")
    seen = []
    steered = threading.Event()

    def follow() -> None:
        for event in turn.stream():
            seen.append(event)
            if event.method == "item/started" and event.payload.item.root.type == "commandExecution":
                steered.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert steered.wait(60), "the command never started"
    turn.steer("also this")
    works("steer")
    turn.interrupt()
    follower.join(60)
    assert seen[-1].method == "turn/completed", seen[-1]
    assert seen[-1].payload.turn.status.value == "interrupted", seen[-1]
    texts = [
        part.root.text
        for event in seen
        if event.method == "item/completed" and event.payload.item.root.type == "userMessage"
        for part in event.payload.item.root.content
    ]
    assert "also this" in texts, texts
    works("interrupt")


def list_fork_archive(codex: Codex, thread_id: str) -> None:
    listed = codex.thread_list(limit=10).data
    assert [thread.id for thread in listed] == [thread_id], listed
    works("list")
    fork = codex.thread_fork(thread_id)
    assert fork.id != thread_id
    assert len(fork.read(include_turns=True).thread.turns) == 4
    assert text_of(fork.run("say hello")) == "hello from the model"
    works("fork")
    fork.set_name("a fork")
    assert fork.read().thread.name == "a fork"
    works("name")
    codex.thread_archive(fork.id)
    assert [thread.id for thread in codex.thread_list(archived=True).data] == [fork.id]
    codex.thread_unarchive(fork.id)
    works("archive")
    assert codex.models().data[0].is_default
    works("models")


def approvals() -> None:
    """The client below the public one takes a function that decides."""
    asked, decisions = [], iter(["accept", "decline"])

    def decide(method, params):
        asked.append((method, params["command"]))
        return {"decision": next(decisions)}

    with CodexClient(config(), approval_handler=decide) as client:
        client.initialize()
        params = {"cwd": str(WORK), "approvalPolicy": "untrusted", "sandbox": "workspace-write"}
        thread = client.thread_start(params).thread
        for name, there in [("accepted", True), ("declined", False)]:
            started = client.turn_start(thread.id, f"touch {name}")
            ended = client.wait_for_turn_completed(started.turn.id)
            assert ended.turn.status.value == "completed", ended
            assert (WORK / name).exists() is there, name
    methods = {method for method, _ in asked}
    assert methods == {"item/commandExecution/requestApproval"} and len(asked) == 2, asked
    works("approvals")


def refused_version() -> None:
    """An SDK that could not read our version would not talk to us: the check is alive."""
    from openai_codex import _runtime_requirements

    try:
        _runtime_requirements.require_runtime_version("0.1.0")
    except ValueError:
        works("a product version in its place would be refused")
    else:
        raise AssertionError("the SDK accepts any version")


def main() -> int:
    with Codex(config()) as codex:
        thread_id = start_run_and_read(codex)
        stream(codex, thread_id)
        structured_output(codex, thread_id)
        steer_and_interrupt(codex, thread_id)
        list_fork_archive(codex, thread_id)
    # Another process on the same home: what was said is there.
    with Codex(config()) as codex:
        again = codex.thread_resume(thread_id, approval_mode=ApprovalMode.deny_all)
        assert len(again.read(include_turns=True).thread.turns) == 4
        assert text_of(again.run("say hello")) == "hello from the model"
        try:
            codex.thread_resume("not-a-thread")
        except CodexError:
            pass
        else:
            raise AssertionError("a bad id was accepted")
    works("resume after a restart")
    approvals()
    refused_version()
    return 0


if __name__ == "__main__":
    sys.exit(main())
