"""Several values: users write a list, and what is kept is a tuple, so that nothing can be added to it later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator

T = TypeVar("T")

Many = Annotated[Sequence[T], AfterValidator(tuple)]
