"""The tag of pydantic models. pydantic is never imported here: whoever has a model has imported it.

A model is four things: its fields, which of them were set by the author, its extra fields, its private attributes. All
four are kept, and put back without validation while the class has the stored fields. When the class has changed, the stored
values are validated by it, new fields and new private attributes get their defaults.
"""

from __future__ import annotations

import sys
from typing import Any

from torpor.store.values.containers import write_fields
from torpor.store.values.form import TAG, Json, Node, Read, Refused, Show, Wire
from torpor.store.values.names import Types, read_type, spell
from torpor.store.values.records import Writer, field_step, gone, remembered, unbuilt

_put = object.__setattr__


def is_model(cls: type) -> bool:
    """Whether `cls` is a pydantic model, without importing pydantic."""
    main = sys.modules.get("pydantic.main")
    return main is not None and issubclass(cls, main.BaseModel)


def model_writer(cls: Any) -> Writer:
    """The fields (`v`), those never set (`u`), `fields_set` if not all of them (`s`), extra (`x`), private (`p`)."""
    spelled = spell(cls)
    fields = cls.model_fields
    forgotten = remembered(cls)
    root = cls.__pydantic_root_model__
    if read_type(spelled, None) is not cls:
        raise Refused(
            f"the generic class {cls.__qualname__} would come back as another class",
            hint="give it a name of its own: class Name(Generic[...]): ...",
        )
    if any(vars(part).get("__slots__") for part in cls.__mro__ if part.__module__.partition(".")[0] != "pydantic"):
        raise Refused(f"the model {cls.__qualname__} has __slots__", hint="use private attributes instead")

    def write(value: Any, wire: Wire) -> Json:
        held = {name: item for name, item in value.__dict__.items() if name not in forgotten}
        node = {TAG: "model", "c": spelled, "v": write_fields(held, wire, field_step)}
        if held.keys() != fields.keys():
            if unknown := held.keys() - fields.keys():
                raise Refused(
                    f"a {cls.__qualname__} has {', '.join(sorted(unknown))}, which is none of its fields",
                    hint='declare it as a field or a private attribute, or set extra="allow"',
                )
            node["u"] = [name for name in fields if name not in held]
        if value.__pydantic_fields_set__ != held.keys():
            node["s"] = [wire(name) for name in sorted(value.__pydantic_fields_set__)]
        if not root:
            if value.__pydantic_extra__ is not None:
                node["x"] = wire(value.__pydantic_extra__)
            if value.__pydantic_private__ is not None:
                node["p"] = write_fields(value.__pydantic_private__, wire, field_step)
        return node

    return write


def read_model(node: Node, read: Read, types: Types | None) -> object:
    """Exactly as it was if the class has the stored fields, else validated by the class."""
    cls = read_type(node["c"], types)
    if not (isinstance(cls, type) and is_model(cls)):
        raise unbuilt(str(node["c"]), "it is no pydantic model any more")
    model: Any = cls
    values = {name: read(part) for name, part in node["v"].items()}
    extra: Any = read(node["x"]) if "x" in node else None
    fields_set = {read(part) for part in node["s"]} if "s" in node else set(values)
    fields = model.model_fields
    takes_extra = model.model_config.get("extra") == "allow"
    if lost := (set() if takes_extra else (values.keys() - fields.keys()) | set(extra or ())):
        raise gone(model.__qualname__, lost)
    unset = node.get("u", ())
    if len(values) + len(unset) == len(fields) and fields.keys() == values.keys() | set(unset):
        made = model.__new__(model)
        _put(made, "__dict__", values)
        if not model.__pydantic_root_model__:
            _put(made, "__pydantic_extra__", (extra or {}) if takes_extra else None)
            _put(made, "__pydantic_private__", None)
    else:
        made = _validated(model, {**values, **(extra or {})})
    _put(made, "__pydantic_fields_set__", fields_set)
    if not model.__pydantic_root_model__:
        _put_private(made, {name: read(part) for name, part in node["p"].items()} if "p" in node else None)
    return made


def _validated(model: Any, values: dict[str, object]) -> Any:
    from pydantic import ValidationError

    try:
        return model.model_validate(values, by_name=True)
    except ValidationError as error:
        raise unbuilt(model.__qualname__, error) from error


def _put_private(made: Any, stored: dict[str, object] | None) -> None:
    """The stored private attributes; those the class got since then have the default they were given."""
    declared = made.__private_attributes__
    if stored is None:
        stored = {}
    elif lost := stored.keys() - declared.keys():
        raise gone(type(made).__qualname__, lost, what="private attribute")
    if not declared:
        return
    from pydantic_core import PydanticUndefined

    private = dict(stored)
    for name, attribute in declared.items():
        if name not in private and (default := attribute.get_default()) is not PydanticUndefined:
            private[name] = default
    _put(made, "__pydantic_private__", private)


def show_model(node: Node, show: Show) -> Json:
    """The fields and the extra fields as an object, a root model as its root; never the private attributes."""
    fields: Node = {name: show(part) for name, part in node["v"].items()}
    if fields.keys() == {"root"}:
        return fields["root"]
    extra = show(node["x"]) if "x" in node else {}
    return {**fields, **extra} if isinstance(extra, dict) else fields
