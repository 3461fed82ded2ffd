"""YAML as kubectl and etcd read it: what `fleet.manifests` takes from files, all that commands print, engines' files.

kubectl reads YAML with sigs.k8s.io/yaml, and PyYAML reads some of the same words otherwise: `1e3`, `08` and `12:30` are
texts to one of them and numbers to the other, `y` is a key for PyYAML and `true` for kubectl. One table of words serves
both directions: a text is written without quotes only if neither library takes it for anything else. Whatever kubectl
reads otherwise than it is written (a key that is a fraction, a second document that it passes over) is refused by the
reader.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from fleet.text import printable

DEEPEST = 100  # as in the answers of workers; manifests are a dozen deep
MOST_VALUES = 1_000_000  # in one document, aliases unfolded

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast, where it was built
_TAG = "tag:yaml.org,2002:"
_STRING = f"{_TAG}str"
_PLAIN = f"{_TAG}fleet-plain"  # of a scalar that had neither quotes nor a tag
_INT64 = 2**63
_WHOLE = 1e21  # from here on Go writes a float with an exponent

_CONSTANTS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[oO](?P<o>[0-7]+)|0[bB](?P<b>[01]+)|(?P<octal>0[0-7]*)|(?P<d>[1-9][0-9]*))"
)
_SIGNED_BITS = re.compile(r"0b([-+][01]+)")
_BASES = {"x": 16, "o": 8, "b": 2, "octal": 8, "d": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FLOAT_FROM_POINT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")  # by Go's own rule for "_"
_SEPARATOR = "---"
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes one


class YamlDocument(NamedTuple):
    data: Any
    line: int  # of the file, from 1


class NotYamlError(ValueError):
    """A text that kubectl does not read, or reads otherwise than it is written."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line  # of the file, from 1; 0 if unknown


def _is_tab(text: str, line: int, column: int) -> bool:
    """Tell whether what could not be read is a tab in front of a line."""
    lines = text.splitlines()
    return line < len(lines) and lines[line][column : column + 1] == "\t" and not lines[line][:column].strip()


def read_documents(text: str, most: int = MOST_VALUES) -> Iterator[YamlDocument]:
    """Yield the documents of a file that are not empty; raise NotYamlError where the first mistake is.

    `most` is how many values one document may have, aliases unfolded.
    """
    if text.lstrip().startswith("{"):  # kubectl tries JSON first, which knows escapes that YAML does not
        try:
            data = json.loads(
                text,
                object_pairs_hook=_unique_keys,
                parse_constant=_refuse_constant,
                parse_int=_read_integer,
                parse_float=_read_float,
            )
        except (json.JSONDecodeError, RecursionError):
            pass
        else:
            if _HALF_CHARACTER.search(text):
                _refuse_half_characters(data)
            yield YamlDocument(data, 1)
            return
    for part, first in _split_documents(text):
        loader = _Loader(part)
        try:
            _check_depth(part, first)
            node = loader.get_single_node()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + first if mark else 0
            problem = getattr(error, "problem", None) or str(error)
            if mark and _is_tab(part, mark.line, mark.column):
                problem = "a tab stands where YAML takes spaces only: indent with spaces"
            raise NotYamlError(problem, line) from None
        finally:
            loader.dispose()
        if node is not None:
            data = _Reader(first, most).value(node)
            if data is not None:
                yield YamlDocument(data, node.start_mark.line + first)


def dump(document: Any) -> str:
    """Return one document, which kubectl reads as the same data."""
    return dump_all([document])


def dump_settings(settings: Mapping[str, Any]) -> str:
    """Return the file of an engine that reads as kubectl does, in the order of names.

    Its form is PyYAML's own, since such files are kept in clusters: only what would be read otherwise has quotes more.
    """
    return _dump_documents([settings], allow_unicode=False, sort_keys=True, width=80)


def dump_all(documents: Iterable[Any]) -> str:
    """Return the documents with separators between them; what a terminal would obey is escaped."""
    all_documents = list(documents)
    text = _dump_documents(all_documents, allow_unicode=True)
    return text if printable(text) == text else _dump_documents(all_documents, allow_unicode=False)


def comment_line(text: str) -> str:
    """Return a line of comment, and only one, whatever the text is."""
    return f"# {' '.join(printable(text).split())}\n"


def resolve(text: str) -> Any:
    """Return what kubectl takes an unquoted word for: None, a bool, a number or a string."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if text[0] == "." and not _FLOAT_FROM_POINT.fullmatch(text):
        return text
    number = text.replace("_", "")
    if match := _INTEGER.fullmatch(number):
        base, digits = next((_BASES[name], match[name]) for name in _BASES if match[name])
        integer = int(digits, base) if len(digits) <= 64 else 2**64
        if match["sign"] == "-":
            integer = -integer
        if -_INT64 <= integer < _INT64:
            return integer
        if not match["sign"] and integer < 2 * _INT64:
            return float(integer)  # a uint64, which becomes a float where JSON is read
    if (match := _SIGNED_BITS.fullmatch(number)) and len(number) <= 64:
        return int(match[1], 2)
    if _FLOAT.fullmatch(number) and math.isfinite(float(number)):
        return float(number)
    return text


def _check_depth(text: str, first: int) -> None:
    """Raise NotYamlError for what is too deep, before it is composed: that is a recursion in C, which ends the process.

    Every map or list in another one needs a bracket or a column of its own, so few texts have to be looked through.
    """
    if text.count("[") + text.count("{") + max(map(len, text.split("\n"))) <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST + 1:
                raise NotYamlError(
                    f"nested more than {DEEPEST} deep", event.start_mark.line + first if event.start_mark else first
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Loader(_LOADER):  # type: ignore[misc]
    """Loader of nodes as they are written: what a word means is decided by `_Reader`."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STRING
        return f"{_TAG}map" if kind is yaml.MappingNode else f"{_TAG}seq"


class _Reader:
    """Reader of data from the nodes of one document, by the rules of sigs.k8s.io/yaml."""

    def __init__(self, first: int, most: int) -> None:
        self._first = first
        self._most = most
        self._count = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self._take(node)
        if depth > DEEPEST:
            raise self._error(node, f"nested more than {DEEPEST} deep")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, {}, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, depth + 1) for child in node.value]
        return self._number(node, self._scalar(node))

    def _mapping(self, node: Any, merged: dict[str, Any], depth: int) -> dict[str, Any]:
        """Fill a map in the order of its lines, as kubectl does: a merge key overrides what stands before it."""
        seen: set[str] = set()
        for name, child in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == "<<" and name.tag in (_PLAIN, f"{_TAG}merge"):
                self._merge(child, merged, depth)
                continue
            key = self._key(name)
            if key in seen:
                raise self._error(name, f"key {key!r} is there twice")
            seen.add(key)
            merged[key] = self.value(child, depth + 1)
        return merged

    def _take(self, node: Any) -> None:
        """Count a value, or a map that is merged: one without values costs time, too."""
        self._count += 1
        if self._count > self._most:
            raise self._error(node, f"more than {self._most} values, aliases unfolded")

    def _merge(self, node: Any, merged: dict[str, Any], depth: int) -> None:
        sources = node.value[::-1] if isinstance(node, yaml.SequenceNode) else [node]
        if depth > DEEPEST or not all(isinstance(source, yaml.MappingNode) for source in sources):
            raise self._error(node, "a merge key needs a map, or a list of maps")
        for source in sources:
            self._take(source)
            self._mapping(source, merged, depth + 1)

    def _key(self, node: Any) -> str:
        key = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int):
            return str(key)
        if not isinstance(key, str):
            text = node.value if isinstance(node, yaml.ScalarNode) else "a map or a list"
            raise self._error(node, f"{str(text)[:80]!r} is no key: put it in quotes")
        return key

    def _scalar(self, node: Any) -> Any:
        text, tag = node.value, node.tag
        if tag == _PLAIN:
            return resolve(text)
        if tag == f"{_TAG}binary":
            try:
                return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode()
            except (binascii.Error, ValueError):
                raise self._error(node, "is not base64 of a text") from None
        kinds = {f"{_TAG}bool": bool, f"{_TAG}int": int, f"{_TAG}float": (int, float), f"{_TAG}null": type(None)}
        if tag not in kinds:
            return text
        value = resolve(text)
        if not isinstance(value, kinds[tag]) or (isinstance(value, bool) and tag != f"{_TAG}bool"):  # type: ignore[arg-type]
            raise self._error(node, f"{text[:80]!r} is not what its tag says")
        return value

    def _number(self, node: Any, value: Any) -> Any:
        """Return a value as JSON has it after Go wrote it: a float without a fraction is an integer there."""
        if not isinstance(value, float):
            return value
        if not math.isfinite(value):
            raise self._error(node, f"{node.value} is no number that JSON has")
        return int(value) if value.is_integer() and abs(value) < min(_WHOLE, _INT64) else value

    def _error(self, node: Any, problem: str) -> NotYamlError:
        return NotYamlError(problem, node.start_mark.line + self._first)


def _split_documents(text: str) -> Iterator[tuple[str, int]]:
    """Yield what kubectl takes for documents, each with its first line: it looks at the beginnings of lines only."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(_SEPARATOR):
            after = line[len(_SEPARATOR) :].strip()
            if after and not after.startswith("#"):
                raise NotYamlError(f"{after[:80]!r} stands behind '---', where kubectl accepts nothing", number)
            yield "\n".join(lines), first
            lines, first = [], number + 1
        else:
            lines.append(line.removesuffix("\r"))
    yield "\n".join(lines), first


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        repeated = next(name for name, times in counted.items() if times > 1)
        raise NotYamlError(f"key {repeated!r} is there twice")
    return unique


def _refuse_constant(name: str) -> Any:
    raise NotYamlError(f"{name} is no number that JSON has")


def _read_integer(digits: str) -> int | float:
    """Return an integer of JSON as Go has it, which makes a float of one that is too large."""
    integer = int(digits) if len(digits) <= 64 else _INT64
    return integer if -_INT64 <= integer < _INT64 else _read_float(digits)


def _read_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise NotYamlError(f"{digits[:80]} is no number that JSON has")
    return value


def _refuse_half_characters(data: Any) -> None:
    """Raise NotYamlError for data with half of a character, which kubectl takes for another one."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise NotYamlError("a text has half of a character in it") from None


class _Dumper(_DUMPER):  # type: ignore[misc]
    """Dumper with quotes around every text that kubectl or PyYAML would take for something else, and nothing by
    reference.
    """

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if tag == _STRING and kind is yaml.ScalarNode and implicit[0] and not isinstance(resolve(value), str):
            return _PLAIN  # no tag of any value: it is quoted
        return tag

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dump_documents(documents: list[Any], *, allow_unicode: bool, sort_keys: bool = False, width: int = 116) -> str:
    dumped: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=allow_unicode, width=width
    )
    return dumped
