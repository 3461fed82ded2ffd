"""Load what writes to clusters while user code is evaluated in another process: nobody has to wait for it then."""

from __future__ import annotations

import contextlib
from importlib import import_module
from threading import Thread


def load_ahead() -> None:
    """Begin, and return at once. Whoever needs the modules imports them as ever, and finds them done or waits.

    A command that ends before waits for it, too: an interpreter that is taken down under an import may crash.
    """
    Thread(target=_load, name="load-ahead").start()


def _load() -> None:
    with contextlib.suppress(Exception):  # what is wrong with them is said where they are needed
        import_module("fleet.kube.session")
