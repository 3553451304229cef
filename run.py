#!/usr/bin/env python3
"""The one entry: `python run.py COMMAND`. Hands over to pipeline.cli.

Any Python 3 can read this file, so that the wrong one can be told what to do.
"""

import os
import sys
from importlib.util import find_spec

#: stand for all packages
_NEEDED = ("typer", "pydantic", "pipecat")


def _hand_over() -> None:
    """Started by a Python without the packages: goes on in the virtual environment beside us."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(here, ".venv")
    python = os.path.join(folder, "bin", "python")
    if os.path.abspath(sys.prefix) != folder and os.access(python, os.X_OK):
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
    version = "{}.{}".format(*sys.version_info[:2])
    sys.exit(
        f"error: this Python {version} has not the packages of duplexd\nfix:   run `make run` first"
    )


if __name__ == "__main__":
    if not all(map(find_spec, _NEEDED)):
        _hand_over()
    from pipeline.cli import main

    main()
