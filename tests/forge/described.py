"""Holds answers to GitHub's own description of its API.

    python described.py DESCRIPTION <answers

Each line of stdin is an answer: {"method", "path", "status", "body"}, where the path is as the description has it.
Says on stdout what does not fit.
"""

import json
import sys

from openapi_schema_validator import OAS30Validator, oas30_format_checker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4


def with_nulls(value):
    """What may be null may be so beside a list of words, too: GitHub means that, the validator wants it said."""
    if isinstance(value, dict):
        if value.get("nullable") and "enum" in value and None not in value["enum"]:
            value["enum"].append(None)
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            with_nulls(inner)


description = json.load(open(sys.argv[1], encoding="utf-8"))
with_nulls(description)
registry = Registry().with_resource("urn:github", Resource(contents=description, specification=DRAFT4))


def escaped(part):
    return part.replace("~", "~0").replace("/", "~1")


def troubles(answer):
    operation = description["paths"][answer["path"]][answer["method"]]
    status = str(answer["status"])
    response = operation["responses"].get(status)
    if response is None:
        return [f"{status} is not described"]
    pointer = f"/paths/{escaped(answer['path'])}/{answer['method']}/responses/{status}"
    if "$ref" in response:
        pointer = response["$ref"].removeprefix("#")
        response = description["components"]["responses"][pointer.rsplit("/", 1)[1]]
    if "application/json" not in response.get("content", {}):
        return []
    schema = {"$ref": f"urn:github#{pointer}/content/application~1json/schema"}
    validator = OAS30Validator(schema, registry=registry, format_checker=oas30_format_checker)
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(answer["body"])]


for line in sys.stdin:
    answer = json.loads(line)
    for trouble in troubles(answer):
        print(f"{answer['method']} {answer['path']}: {trouble}")
