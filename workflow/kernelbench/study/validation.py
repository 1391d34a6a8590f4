"""Validation of YAML files by pydantic models: the first thing that is wrong becomes one line."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import model_validator as check_model
from pydantic_core import ErrorDetails, PydanticCustomError

from kernelbench.errors import InputError, nearest
from kernelbench.names import RESERVED

# The default of a key that may be left out, but must not be null.
ABSENT: Any = None
# How pydantic begins its sentences, what it calls values of YAML, and what it adds to the place of an error: there tags
# of unions are in angle brackets.
SUBJECT = re.compile(r"^(Input|String|List|Dictionary|Value) ")
CALLED = {"a valid boolean": "true or false", "a valid dictionary": "a mapping", "a valid string": "text"}
NO_PLACE = re.compile(r"\[key]|<.*>")


def refuse(what_is_allowed: str) -> PydanticCustomError:
    """Return the error that a validator raises; what_is_allowed goes on with "allowed: "."""
    return PydanticCustomError("refused", "{allowed}", {"allowed": f"allowed: {what_is_allowed}"})


class Model(BaseModel):
    """A mapping with these keys and no others, whose values have exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @check_model(mode="before")
    @classmethod
    def refuse_unknown_keys(cls, given):
        """Name the first unknown key, and the known one nearest to it, before a key is called missing."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in given if isinstance(given, dict) else ():
            if key not in known:
                line = f"{key} is not a known key{nearest(key, known)}; allowed: {', '.join(known)}"
                raise PydanticCustomError("unknown_key", "{line}", {"line": line})
        return given


def matching(pattern: str, allowed: str) -> AfterValidator:
    """Return the validator of a text that matches a pattern as a whole; allowed: what that is, in words."""

    def check(given: str) -> str:
        if not re.fullmatch(pattern, given):
            raise refuse(allowed)
        return given

    return AfterValidator(check)


def _refuse_repeats(given: list) -> list:
    if len({str(value) for value in given}) < len(given):
        raise refuse("each value once")
    return given


T = TypeVar("T")
# A list of one or more different values; and one value in the place of a list.
Several = Annotated[list[T], Field(min_length=1), AfterValidator(_refuse_repeats)]
OneOrSeveral = Annotated[Several[T], BeforeValidator(lambda given: given if isinstance(given, list) else [given])]


def _check_size(given):
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise refuse("an integer, or text such as 1GiB")
    return given


Size = Annotated[int | str, BeforeValidator(_check_size)]


def _refuse_reserved(given: str) -> str:
    if given in RESERVED:
        raise refuse(f"a label that no table reads as a word of its own ({', '.join(sorted(RESERVED))})")
    return given


Label = Annotated[
    str,
    matching("[a-z][a-z0-9_-]*", "a label of lower-case letters, digits, - and _ that begins with a letter"),
    AfterValidator(_refuse_reserved),
]


def require_exactly_one(model: Model, keys: Iterable[str]) -> None:
    """Raise the error of a model of which not exactly one of these keys is given."""
    if len(model.model_fields_set & set(keys)) != 1:
        raise refuse(f"one of {', '.join(keys)}")


def require_any(model: Model, *keys: str) -> None:
    """Raise the error of a model of which none of these keys is given."""
    if not model.model_fields_set & set(keys):
        raise refuse(f"{' or '.join(keys)}, or both")


def validate(model: Any, document, what: str) -> None:
    """Raise InputError, which begins with `what`, for the first thing in `document` that a pydantic type refuses."""
    try:
        TypeAdapter(model).validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{what}: {_say(first, _place(document, first['loc']))}") from None


def _place(document, loc: tuple) -> str:
    """Return the keys that lead to an error, with dots between; an item of a list goes by its `id`, if it has one."""
    names = []
    for part in loc:
        if NO_PLACE.fullmatch(str(part)):
            continue
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):  # It is missing, or was one value in the place of a list.
            document = None
        has_id = isinstance(part, int) and isinstance(document, dict) and isinstance(document.get("id"), str)
        names.append(document["id"] if has_id else str(part))
    return ".".join(names)


def _say(error: ErrorDetails, where: str) -> str:
    """Return an error in one line: the key, its value and what is allowed."""
    at = f"{where}: " if where else ""
    if error["type"] == "unknown_key":
        return at + error["msg"]
    if error["type"] == "missing":
        *above, key = where.rsplit(".", 1)
        return f"{''.join(f'{part}: ' for part in above)}{key} is missing"
    known = re.findall(r"'([^']*)'", error.get("ctx", {}).get("expected", ""))
    value = json.dumps(error["input"], default=str)
    message = SUBJECT.sub("it ", error["msg"]).partition(" or instance of")[0]
    for words, plain in CALLED.items():
        message = message.replace(words, plain)
    return f"{at}{value} is not allowed{nearest(error['input'], known)}; {message}"


def require_known(what: str, name, known) -> None:
    """Raise InputError, which begins with `what`, unless `name` is one of `known`."""
    if name not in known:
        allowed = ", ".join(map(str, known))
        raise InputError(f"{what}: {name} is not known{nearest(name, known)}; allowed: {allowed or 'none'}")
