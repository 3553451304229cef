"""How a bench says how far it is."""

from __future__ import annotations

from collections.abc import Callable

#: told what goes on: share of the whole bench that is done, and words
OnProgress = Callable[[float, str], None]
