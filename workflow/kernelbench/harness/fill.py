"""Fill the compile caches as the process of a job would: python -m kernelbench.harness.fill < settings

The caches are those that the environment names. With `cache: second-process` a job starts this before its first call.
"""

import json
import subprocess
import sys

from kernelbench.harness import child


def by_another_process(settings: dict) -> None:
    """Let another process make the first call of the job of `settings`; raise RuntimeError where it does not."""
    command = [sys.executable, "-m", "kernelbench.harness.fill"]
    done = subprocess.run(command, input=json.dumps(settings), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"the process that fills the caches: {(done.stderr.strip() or 'no reason').splitlines()[-1]}"
        )


def main() -> None:
    from kernelbench.harness.measure import first_call

    first_call(json.load(sys.stdin))


if __name__ == "__main__":
    main()
    child.finish(0)
