"""Safe YAML loader that reads as kubectl does or refuses.

`compose` yields documents as nodes with lines, `content_of` their values, `Fields` the lines of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

from hetserve.base.json_nodes import JsonSyntaxError, compose_json
from hetserve.base.plain_scalars import PLAIN, plain_value

_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT: Final = "tag:yaml.org,2002:str"
_MOST_REPEATED: Final = 100_000
"""Values that aliases may add."""

_Entries = dict[str | int, tuple[yaml.Node, yaml.Node]]


class StrictLoader(yaml.SafeLoader):
    """kubectl's scalars; keys are text and unique."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return _MERGE if value == "<<" else PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise ConstructorError(None, None, f"expected a mapping, but found a {node.id}", node.start_mark)
        return {key_text(key): self.construct_object(value, deep=deep) for key, value in _pairs(node)}

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.tag == "!":
            event.implicit = (False, True)
        return super().compose_scalar_node(anchor)

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        while self.peek() == "\t" and not self._begins_line() and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def _begins_line(self) -> bool:
        """Whether a tab would indent."""
        return not self.buffer[self.pointer - self.column : self.pointer].strip()


def _of_type(kinds: tuple[type, ...]) -> Callable[[StrictLoader, Any], Any]:
    """Constructor for a type tag such as `!!int`."""

    def construct(loader: StrictLoader, node: Any) -> Any:
        value = plain_value(loader.construct_scalar(node))
        if type(value) not in kinds:
            raise ConstructorError(None, None, f"{node.value!r} is no !!{node.tag.rpartition(':')[2]}", node.start_mark)
        return value

    return construct


def _plain(loader: StrictLoader, node: Any) -> Any:
    return plain_value(loader.construct_scalar(node))


def _refused(_: StrictLoader, node: Any) -> Any:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    raise ConstructorError(None, None, f"the tag {tag[:60]} is not taken; leave it out", node.start_mark)


def _text(loader: StrictLoader, node: Any) -> Any:
    return loader.construct_scalar(node)


StrictLoader.add_constructor(PLAIN, _plain)
for _name, _kinds in {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}.items():
    StrictLoader.add_constructor(f"tag:yaml.org,2002:{_name}", _of_type(_kinds))
for _name in ("merge", "timestamp"):
    StrictLoader.add_constructor(f"tag:yaml.org,2002:{_name}", _text)
for _name in ("binary", "omap", "pairs", "set"):
    StrictLoader.add_constructor(f"tag:yaml.org,2002:{_name}", _refused)
StrictLoader.add_constructor(None, _refused)


@contextmanager
def _refusing_depth() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise yaml.MarkedYAMLError(None, None, "nested too deeply") from None


def compose(text: str) -> Iterator[yaml.Node]:
    """Root nodes of a text's documents, JSON or YAML.

    Raises yaml.MarkedYAMLError, with the line, also for deep nesting.
    """
    with _refusing_depth():
        yield from _compose(text)


def content_of(node: yaml.Node) -> Any:
    """Raises yaml.MarkedYAMLError for an unknown or violated tag."""
    with _refusing_depth():
        return StrictLoader("").construct_document(node)


def contents(text: str) -> list[Any]:
    return [content_of(node) for node in compose(text)]


def _compose(text: str) -> Iterator[yaml.Node]:
    wrong: JsonSyntaxError | None = None
    if text.lstrip().startswith("{"):
        try:
            yield from [_checked(node) for node in compose_json(text)]
        except JsonSyntaxError as error:
            wrong = error
        else:
            return
    try:
        yield from (_checked(node) for node in yaml.compose_all(text, Loader=StrictLoader) if node is not None)
    except yaml.MarkedYAMLError as error:
        # The error of the reading that came further.
        raise (error if wrong is None else max(error, wrong, key=_index)) from None
    except yaml.reader.ReaderError as error:
        mark = yaml.Mark("", error.position, text.count("\n", 0, error.position), 0, None, 0)
        raise yaml.MarkedYAMLError(None, None, str(error).splitlines()[0], mark) from None


def key_text(key: yaml.Node) -> str:
    """As in JSON: `1` and `on` are "1" and "true". Raises yaml.MarkedYAMLError."""
    if not isinstance(key, yaml.ScalarNode):
        raise ConstructorError(None, None, "a key is text, this is a list or a mapping", key.start_mark)
    if key.tag not in (PLAIN, _TEXT, _MERGE):
        raise ConstructorError(None, None, "a key has no tag; put it in quotes", key.start_mark)
    value = plain_value(key.value) if key.tag == PLAIN else key.value
    if value is None:
        raise ConstructorError(None, None, "a key is text, this is nothing", key.start_mark)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Fields:
    def __init__(self, node: yaml.Node, known: dict[yaml.Node, _Entries] | None = None) -> None:
        self._node = node
        self._known: dict[yaml.Node, _Entries] = {} if known is None else known

    def line_of(self, path: Sequence[str | int]) -> int:
        """Line, from 1, of the field or of its last existing part."""
        node = self._node
        line: int = node.start_mark.line + 1
        for part in path:
            found = self._entry(node, part)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line

    def child(self, part: str | int) -> Fields | None:
        found = self._entry(self._node, part)
        return None if found is None else Fields(found[1], self._known)

    def _entry(self, node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
        if isinstance(node, yaml.MappingNode):
            if node not in self._known:
                self._known[node] = {key_text(key): (key, value) for key, value in _pairs(node)}
            return self._known[node].get(part)
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            return node.value[part], node.value[part]
        return None


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Pairs with `<<` expanded in place; the last of a key counts."""
    for key, value in node.value:
        if not _merges(key):
            yield key, value
            continue
        found = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for one in reversed(found):
            if not isinstance(one, yaml.MappingNode):
                raise ConstructorError(None, None, f"<< merges mappings, this is a {one.id}", one.start_mark)
            yield from _pairs(one)


def _merges(key: yaml.Node) -> bool:
    return bool(key.tag == _MERGE and key.value == "<<")


def _checked(document: yaml.Node) -> yaml.Node:
    """Raises for a duplicate key, or an anchor that contains itself or repeats too many values."""
    sizes: dict[yaml.Node, int] = {}
    within: set[yaml.Node] = set()
    written = 0

    def size_of(node: yaml.Node) -> int:
        nonlocal written
        if node in sizes:
            return sizes[node]
        written += 1
        if isinstance(node, yaml.ScalarNode):
            return 1
        if node in within:
            raise ConstructorError(None, None, "an anchor holds itself", node.start_mark)
        within.add(node)
        children = node.value
        if isinstance(node, yaml.MappingNode):
            _distinct(node)
            children = [one for pair in node.value for one in pair]
        size = 1 + sum(map(size_of, children))
        if size > written + _MOST_REPEATED:
            many = f"aliases repeat more than {_MOST_REPEATED:,} values"
            raise ConstructorError(None, None, many, node.start_mark)
        within.discard(node)
        sizes[node] = size
        return size

    size_of(document)
    return document


def _index(error: yaml.MarkedYAMLError) -> int:
    return 0 if error.problem_mark is None else error.problem_mark.index


def _distinct(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        name = key_text(key)
        if name in seen and not _merges(key):
            raise ConstructorError(
                "while reading a mapping", node.start_mark, f"key {name!r} is there twice", key.start_mark
            )
        seen.add(name)
