"""The wire's structs as the OpenAPI document shows them, and as answers are written.

FastAPI knows pydantic models only. A struct is shown by a model of its name that is never filled:
requests are read, and answers written, by msgspec.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from pydantic import BaseModel, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema
from starlette.responses import Response

_REF = "#/structs/"
_write = msgspec.json.Encoder().encode


class _Shown(BaseModel):
    """A model that stands for a struct in the document."""

    struct: ClassVar[Any]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return schema_of(cls.struct)


def shown_as(name: str, struct: Any) -> type[BaseModel]:
    """A model to name in a route's ``responses``, for a struct or a page of them."""
    model = create_model(name, __base__=_Shown)
    model.struct = struct
    return model


def schema_of(struct: Any) -> dict[str, Any]:
    """The JSON schema of a struct, complete in itself."""
    (schema,), structs = msgspec.json.schema_components((struct,), ref_template=_REF + "{name}")
    found: dict[str, Any] = _complete(schema, structs)
    return found


def answer(view: object, status: int = 200) -> Response:
    """A view as the body of an answer."""
    return Response(_write(view), status_code=status, media_type="application/json")


def _complete(part: Any, structs: dict[str, Any]) -> Any:
    """The schema with every reference replaced by what it refers to; structs are trees."""
    if isinstance(part, list):
        return [_complete(item, structs) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        referred = structs[part["$ref"].removeprefix(_REF)]
        rest = {name: value for name, value in part.items() if name != "$ref"}
        part = {**referred, **rest}
    found = {name: _complete(value, structs) for name, value in part.items()}
    of_any_name = found.get("additionalProperties", "")
    if "anyOf" in str(of_any_name) and "properties" not in of_any_name:
        # A free-form object; spelled out to its last level it would fill the document.
        found["additionalProperties"] = True
    if "pattern" in found:
        # JSON schema's expressions have no \A and \Z.
        found["pattern"] = found["pattern"].replace(r"\A", "^").replace(r"\Z", "$")
    return found
