"""What pydantic-ai calls models: `provider:name`. Nothing of it is loaded before a name is asked about."""

from __future__ import annotations


def known(model: str) -> bool:
    """Whether there is a provider that a model's name begins with; what it lacks, a key or a package, does not matter.

    True as well where pydantic-ai is not installed: then nobody here can say.
    """
    try:
        from pydantic_ai.models import infer_model
    except ImportError:
        return True
    try:
        infer_model(model)
    except Exception as error:  # noqa: BLE001 - a key, a package, a region: of a provider that there is
        return not str(error).startswith("Unknown model")
    return True
