"""The JSON Schemas of the docs: strict, of one mind, listed, and as the program has it."""

from pathlib import Path
from typing import Any

import jsonschema
import made_up
import pytest
import schemas
from schemas import schema

DOCS = schemas.FOLDER.parent
NAMES = sorted(path.stem for path in schemas.FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_is_listed(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert f"schemas/{name}.json" in (DOCS / "json.md").read_text()


def objects(part: Any) -> list[dict[str, Any]]:
    """Every object of known properties that a schema describes."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    own = [part] if isinstance(part, dict) and part.get("type") == "object" else []
    return [one for one in own if "properties" in one] + [o for i in inner for o in objects(i)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_unknown_gets_through(name: str) -> None:
    loose = [one for one in objects(schema(name)) if "additionalProperties" not in one]
    assert loose == []


@pytest.mark.parametrize("name", ["sweep", "results", "report"])
def test_a_cell_is_the_same_everywhere(name: str) -> None:
    ours, benchs = (schema(one)["$defs"]["cell"]["properties"] for one in (name, "bench"))
    shared = ours.keys() & benchs.keys()
    assert benchs.keys() - shared <= {"record"}
    assert {key: ours[key] for key in shared} == {key: benchs[key] for key in shared}


def test_the_schema_of_a_record_is_the_models() -> None:
    again = f"`python tests/{Path(schemas.__file__).name}` writes it again"
    assert schemas.RECORD.read_text() == schemas.record_schema(), again


def test_a_record_keeps_to_its_schema_and_a_stranger_does_not() -> None:
    found = made_up.made().model_dump(mode="json")
    schemas.keeps_to("record", found)
    for wrong in ({"mood": "good"}, {"status": "fine"}, {"trial": {"network": "resnet50"}}):
        with pytest.raises(jsonschema.ValidationError):
            schemas.keeps_to("record", found | wrong)
