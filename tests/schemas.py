"""The JSON Schemas of the docs, and documents held to them.

    python tests/schemas.py

writes `docs/schemas/record.json` again, which is made from the model.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
RECORD = FOLDER / "record.json"


def schema(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def keeps_to(name: str, document: Any) -> Any:
    """The document, if its schema is content with it."""
    jsonschema.validate(document, schema(name), cls=jsonschema.Draft202012Validator)
    return document


def record_schema() -> str:
    """What `record.json` has to say: the model's own schema, without what only repeats names."""
    from convdyno.store.record import Record

    made = Record.model_json_schema()
    for model in (made, *made["$defs"].values()):
        for field in model["properties"].values():
            field.pop("title", None)
        del model["title"]
    del made["properties"]["convdyno"]["default"]  # It is another in each version.
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a record: a file of the results folder, convdyno results show ID --json",
    }
    return json.dumps(head | made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    RECORD.write_text(record_schema())
