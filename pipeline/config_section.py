"""What the sections of the configuration share."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: configs/ of this checkout
CONFIGS = Path(__file__).resolve().parent.parent / "configs"

Language = Literal["zh", "en"]


class Section(BaseModel):
    """What all sections share: unknown keys and silent conversions are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Sentence(Section):
    """One sentence in every language."""

    zh: str = Field(min_length=1, description="In Mandarin.")
    en: str = Field(min_length=1, description="In English.")
