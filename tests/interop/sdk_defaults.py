"""The official Python SDK at its defaults: a model that wants out of the sandbox stays in.

Run by the test `interop::sdk` of the command line. The SDK asks for automatic review and, left alone,
accepts whatever it is asked; so nothing that is written outside may depend on its answer. TURNLANE names
the binary, TURNLANE_WORK a directory to work in, TURNLANE_OUTSIDE one that no sandbox makes writable.
Prints one line per turn; the test looks at the directory.
"""

import os
import sys

from openai_codex import Codex, CodexConfig, CodexError, Sandbox

BINARY = os.environ["TURNLANE"]
WORK = os.environ["TURNLANE_WORK"]
OUTSIDE = os.environ["TURNLANE_OUTSIDE"]


def main() -> int:
    with Codex(CodexConfig(codex_bin=BINARY, cwd=WORK)) as codex:
        for name, options in [
            ("default", {}),
            ("read-only", {"sandbox": Sandbox.read_only}),
            ("workspace", {"sandbox": Sandbox.workspace_write}),
        ]:
            thread = codex.thread_start(cwd=WORK, **options)
            for number, wish in enumerate(["touch", "ask to touch", "patch"]):
                try:
                    result = thread.run(f"{wish} {OUTSIDE}/{name}-{number}")
                    print(f"turn: {name}, {wish}: {result.status.value}", flush=True)
                except CodexError as error:
                    print(f"turn: {name}, {wish}: refused, {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
