"""A safe YAML loader as strict as kubectl: no duplicate keys, no dates, and numbers that remember their text."""

from __future__ import annotations

from typing import Any

import yaml


class StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys and leaves dates as text (the API has none as YAML dates)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else repr(key)
            if name in seen and name != "<<":
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping", node.start_mark, f"key {name!r} is there twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
