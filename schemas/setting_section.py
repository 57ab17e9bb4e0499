"""What every section of the settings is: frozen, and strict about its keys. Holds no section."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")
