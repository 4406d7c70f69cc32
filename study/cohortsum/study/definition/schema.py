"""The JSON Schema of a study file, for editors that complete and check while a statistician types."""

from pydantic.json_schema import JsonSchemaValue

from cohortsum.study.definition.models import StudyFile


def study_schema() -> JsonSchemaValue:
    """Return the schema, JSON Schema 2020-12. It knows the form of every field, not what holds between fields."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **StudyFile.model_json_schema(by_alias=True, mode="validation"),
        "title": "cohortsum study file",
    }
