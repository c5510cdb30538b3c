"""Fields of a plain object, to compare two of them: a compiled class has no ``__dict__`` and no ``__slots__``."""

from __future__ import annotations


def fields_of(value: object) -> dict[str, object]:
    """Return the object's public attributes by name, methods and properties left out."""
    kind = type(value)
    names = [name for name in dir(kind) if not name.startswith("_")]
    plain = [name for name in names if not callable(each := getattr(kind, name)) and not isinstance(each, property)]
    return {name: getattr(value, name) for name in plain}
