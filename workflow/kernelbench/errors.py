"""The one way in which bad input is reported."""

import signal
import sys
from collections.abc import Callable
from difflib import get_close_matches


class InputError(SystemExit):
    """Something the user gave cannot be used; the message is one line that says what, and what is allowed.

    A SystemExit, so that a script and Snakemake alike end with this line, exit code 1 and no traceback.
    """


def nearest(name: str, known) -> str:
    """Return ' (did you mean X?)' for the known name closest to `name`, or '' where none is close."""
    close = get_close_matches(str(name), [str(k) for k in known], n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`: a file that cannot be used, Ctrl-C and SIGTERM end it with one line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):  # A locale that has no µ gets \xb5.
        stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # Unwinds, so that temporary files go.
    try:
        main()
    except OSError as error:
        raise InputError(f"{error.filename or 'input or output'}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        sys.exit("interrupted")
