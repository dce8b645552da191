#!/usr/bin/env python3
"""The published schemas against the corpus: they accept every certificate and configuration that the checkers accept,
and refuse what a schema can see. What it cannot see is marked in docs/reference/certificate.md."""
import importlib.util
import json
import re
import sys

import jsonschema

from corpus import CERTIFICATE, CONFIG, HERE, edited, load_bases

SCHEMAS = HERE.parent.parent / "schemas"
# Cases that a schema must refuse, and those among them that it cannot see.
SEEN = re.compile(
    r"field_(.*_missing|further_.*|.*_is_(null|true|false|text|list|object|minus))$|"
    r"field_(schema|certified|norm|file|formula)_|matrix_(method|heads|scales)_|"
    r"config_(unknown_key|model_type|.*_wrong_|mlp_|layer_sizes|.*_(null|\"4\"|-1|16777217)$)")
UNSEEN = re.compile(
    r"_(version|sha256|name)_|field_schema_(1.0|1e0|0.1e1)|log10_|share|matrix_method_of_sums|"
    r"field_(layers|matrices)_.*(missing|lipschitz|activation)|"
    r"config_layer_sizes_(large|30000|other|float)|config_model_type_\"bridle_mlp\"|"
    r"matrix_heads_(one|three)|matrix_scales_(missing|three|of_query|without_columns|no_float32|one|with_room_beside)")


def validator_of(schema, store):
    """How schemas find each other differs between versions of jsonschema: a registry since 4.18, a resolver before."""
    if importlib.util.find_spec("referencing"):
        referencing = importlib.import_module("referencing")
        found = [(name, referencing.Resource.from_contents(other)) for name, other in store.items()]
        return jsonschema.Draft202012Validator(schema, registry=referencing.Registry().with_resources(found))
    resolver = jsonschema.RefResolver.from_schema(schema, store=store)
    return jsonschema.Draft202012Validator(schema, resolver=resolver)


def validators():
    schemas = [json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("certificate", "config")]
    store = {schema["$id"]: schema for schema in schemas}
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)
    return [validator_of(schema, store) for schema in schemas]


def main():
    bases, (certificate, config), wrong, refused, accepted = load_bases(), validators(), [], 0, 0
    for case in map(json.loads, open(HERE / "cases.jsonl", encoding="utf-8")):
        if case["code"] == 1 or any(edit[0] in ("pad", "pad_header") for edit in case["edits"]):
            continue
        folder = edited(bases[case["base"]], case["edits"])
        valid = certificate.is_valid(folder.json(CERTIFICATE)) and config.is_valid(folder.json(CONFIG))
        accepted, refused = accepted + valid, refused + (not valid)
        if case["code"] == 0 and not valid:
            wrong.append(f"{case['name']}: the schemas refuse what is valid")
        if case["code"] == 3 and valid and SEEN.match(case["name"]) and not UNSEEN.search(case["name"]):
            wrong.append(f"{case['name']}: the schemas accept what they could refuse")
    print("\n".join(wrong + [f"schemas: {accepted} cases accepted, {refused} refused, {len(wrong)} wrong"]))
    return 1 if wrong or not accepted or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
