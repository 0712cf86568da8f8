"""Settings: from the environment (`TORPOR_STORE`, `TORPOR_BLOBS`, ...) or a `.env` file; the command line's options win."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What a process of torpor can be told. Durations are seconds."""

    model_config = SettingsConfigDict(env_prefix="TORPOR_", env_file=".env", extra="ignore")

    store: str = Field("sqlite:///torpor.db", description="where runs live: sqlite:///FILE or postgresql://...")
    blobs: str = Field("", description="where large values live: a folder, s3://BUCKET/PREFIX, or empty: in the store")
    concurrency: int = Field(500, ge=1, description="runs that one worker drives at once")
    threads: int = Field(32, ge=1, description="threads for steps that are plain functions")
    lease_seconds: float = Field(45.0, ge=1.0, description="a lease's length; renewed at a third of it")
    drain_seconds: float = Field(30.0, ge=0.0, description="how long a worker that ends waits for effects that act")
    shut_seconds: float = Field(
        60.0, ge=0.0, description="how long a worker that may not act after a rousal tries again"
    )
    snapshot_seconds: float = Field(
        30.0, ge=0.0, description="how long a snapshot of a worker waits for effects that act"
    )
    snapshot_socket: str = Field(
        "", description="where a host says that it takes a snapshot of a worker: a unix socket"
    )
