"""YAML in both directions, with the library that kubectl reads it with as the judge (`tests/kubectl_yaml`)."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from fleet.yaml_text import NotYamlError, comment_line, dump, dump_all, read_documents
from tests.kubectl_yaml import Judge, build

WORDS = (Path(__file__).parent.parent / "kubectl_yaml" / "words.txt").read_text().split()
INFINITE = [".inf", "-.inf", "+.Inf", ".nan", ".NaN", ".NAN", ".INF"]
LETTERS = "0123456789+-._eExXoObB:yYnN~tTf"

DOCUMENTS = (
    "a: {b: 1, c: [x, 08]}\n",
    "a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
    "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: {c: 3, <<: *x}\nf: {<<: [{c: 4}, *x]}\n",
    "a: !!str 08\nb: !!int '08'\nc: !!float 3\nd: !!bool yes\ne: !!null ''\n",
    "f: !own 08\ng: ! 08\nh: !!binary aGVs\n  bG8=\n",
    "a: '08'\nb: \"1e3\"\nc: |\n  y\nd: >-\n  12\n  30\n",
    "---\na: 1\n---\n---\n# nothing\n---   \nb: 2\n--- # three\nc: 3\n",
    "a: 1\r\n---\r\nb: |\r\n  x\r\n  y\r\n",
    "a: 1\n---\nnull\n---\n~\n---\nb: 2",
    "\ufeffa: 1\n",
    '{"a": "\\ud83d\\ude00\\/", "b": 1e3, "c": 1.0, "d": null}\n',
    ' \n\t{"a": 1,\n\t"b": [2]}',
    '{"a": [9223372036854775807, 9223372036854775808, -9223372036854775809, 100000000000000000000, -0, 1e22, 1e-400]}',
    '{"a": 1e400}', '{"a": ' + "1" * 5_000 + "}", '{"a": [-1' + "0" * 400 + "]}", '{"\\ud83d\\ude00": 1}',
    "{a: 1, b: y}\n---\nc: 2\n",
    "{a: 08, }\n",
    "y: 1\nno: 2\n0x10: 3\n1_0: 4\n2001-01-01: 5\n-0: 6\n08x: 7\n",
    "? a\n: b\n? [c]\n",
    "a: \"\\x41\\u00e9\\U0001F600\\e\\0\"\n",
    "a: b: c\n", "a: [1\n", "\tb: 1\n", "a: *gone\n", "!!map {a: 1}\n", "!!set {a, b}\n", "- 1\n- [2, {x: y}]\n",
    "plain\n",
    "a: &x [*x]\n", "a: !!int x\n", "a: !!bool 1\n", "a: !!binary '*'\n", "null: 1\n", "<<: 1\n", "a: {<<: [1]}\n",
    "--- {a: 1}\n", "---a\n", "%YAML 1.1\n---\na: 1\n", "a: <<\n", "'<<': {a: 1}\n", "a: .inf\n", "[a]: 1\n",
)  # fmt: skip
# kubectl reads these, and otherwise than they are written: the last of two, half of it, or a fraction made of 32 bits.
STRICTER = (
    "a: 1\na: 2\n",
    "1: a\n'1': b\n",
    "a: 1\n...\nb: 2\n",
    "0.1: a\n",
    '{"a": 1, "a": 2}',
    '{"a": "\\ud800"}',
    '{"\\uDC00": 1}',
    "a: 1\n...\n---\nb: 2\n...\nc",
)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return build(tmp_path_factory.mktemp("judge"))


def shape(data: Any) -> Any:
    """Compared without the difference of 1 and 1.0, which JSON does not have, but with that of 1 and true."""
    if isinstance(data, dict):
        return {name: shape(value) for name, value in data.items()}
    if isinstance(data, list):
        return [shape(value) for value in data]
    if isinstance(data, int) and not isinstance(data, bool) and not -(2**63) <= data < 2**63:
        return float(data)  # so does the API server
    return (type(data).__name__, data) if isinstance(data, bool) else data


def read(text: str) -> Any:
    try:
        return [shape(document.data) for document in read_documents(text)]
    except NotYamlError as error:
        return error.problem


def random_words(count: int) -> list[str]:
    drawn = random.Random(15)
    return ["".join(drawn.choices(LETTERS, k=drawn.randint(1, 8))) for _ in range(count)]


def test_a_word_without_quotes_is_what_kubectl_takes_it_for(judge: Judge) -> None:
    texts = [f"a: {word}\n" for word in [*WORDS, *INFINITE, "", *random_words(20_000)]]

    wrong: list[Any] = []
    for text, result in zip(texts, judge(texts), strict=True):
        mine = read(text)
        expected = [shape(one) for one in result["documents"]]
        if (isinstance(mine, list) and mine != expected) or isinstance(mine, str) != bool(result["error"]):
            wrong.append((text, mine, result))
    assert not wrong


def test_a_key_without_quotes_is_what_kubectl_takes_it_for_or_refused(judge: Judge) -> None:
    texts = [f"{word}: a\n" for word in [*WORDS, *INFINITE, *random_words(5_000)]]

    wrong: list[Any] = []
    refused = 0
    for text, result in zip(texts, judge(texts), strict=True):
        mine = read(text)
        if isinstance(mine, str) and not result["error"]:
            (key,) = result["documents"][0]
            refused += 1
            if not re.fullmatch(r"-?(\d[\d.]*(e[-+]\d+)?|\.inf|\.nan)", key):  # kubectl has made another text of it
                wrong.append((text, mine, result))
        elif isinstance(mine, list) and (result["error"] or mine != [shape(one) for one in result["documents"]]):
            wrong.append((text, mine, result))
    assert not wrong
    assert refused < len(texts) / 4


@pytest.mark.parametrize("text", DOCUMENTS)
def test_documents_are_read_as_kubectl_does(judge: Judge, text: str) -> None:
    (result,) = judge([text])
    mine = read(text)

    if result["error"]:
        assert isinstance(mine, str), (mine, result)
    else:
        assert mine == [shape(one) for one in result["documents"]]


@pytest.mark.parametrize("text", STRICTER)
def test_what_kubectl_reads_otherwise_than_it_is_written_is_refused(judge: Judge, text: str) -> None:
    (result,) = judge([text])

    assert not result["error"]
    assert isinstance(read(text), str)


def test_a_mistake_is_told_with_its_line() -> None:
    with pytest.raises(NotYamlError) as caught:
        list(read_documents("a: 1\n---\nb: 2\nc: {d: .inf}\n"))
    assert (caught.value.problem, caught.value.line) == (".inf is no number that JSON has", 4)


def test_aliases_that_unfold_to_more_than_there_may_be_are_refused() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]
    assert "values" in read("\n".join(lines))
    assert "deep" in read(f"a: {'[' * 500}{']' * 500}")


def random_text(drawn: random.Random) -> str:
    letters = " \n\t:#-?[]{},&*!|>'\"%@`\\=~<.0123456789eExyYnN_+aé"
    letters += "\u0085\u2028\u202e\U000e0041\U0001f600\ufeff\x00\x07\x7f\xad"
    return "".join(drawn.choices(letters, k=drawn.randint(0, drawn.choice((3, 12, 300)))))


def random_data(drawn: random.Random, depth: int = 0) -> Any:
    kind = drawn.randint(0, 9 if depth < 4 else 6)
    if kind < 4:
        return (
            drawn.choice((*WORDS, *INFINITE, "", " a", "a ", "---", "--- a", "a\n--- b\n"))
            if kind < 2
            else random_text(drawn)
        )
    if kind < 7:
        number = drawn.choice((drawn.randint(-(2**63), 2**63 - 1), drawn.randint(-99, 99), drawn.uniform(-1e6, 1e6)))
        return drawn.choice(
            (None, True, False, number, number, float(f"{drawn.random():.3g}e{drawn.randint(-300, 300)}"))
        )
    if kind == 7:
        return [random_data(drawn, depth + 1) for _ in range(drawn.randint(0, 4))]
    return {
        drawn.choice((random_text(drawn), *drawn.choices(WORDS, k=3))): random_data(drawn, depth + 1)
        for _ in range(drawn.randint(0, 5))
    }


def test_what_is_printed_is_read_by_kubectl_as_the_same_data(judge: Judge) -> None:
    drawn = random.Random(7)
    written = [[{"data": random_data(drawn)} for _ in range(drawn.randint(1, 3))] for _ in range(1_500)]
    written += [[{word: word}] for word in [*WORDS, *INFINITE, *random_words(3_000)]]
    texts = [dump_all(documents) for documents in written]

    for documents, text, result in zip(written, texts, judge(texts), strict=True):
        assert not result["error"], (documents, text, result)
        assert shape(result["documents"]) == shape(documents), text
        assert read(text) == shape(documents), text


def test_what_a_terminal_would_obey_is_escaped_and_plain_words_have_no_quotes() -> None:
    assert dump({"a": "x\u202ey", "b": "\x1b[2J"}).isascii()
    assert dump({"name": "größe", "image": "etcd:3.5.21", "size": "10Gi", "cpu": "500m", "at": "10.0.0.1"}) == (
        "name: größe\nimage: etcd:3.5.21\nsize: 10Gi\ncpu: 500m\nat: 10.0.0.1\n"
    )
    shared = {"a": 1}
    assert dump([shared, shared]) == "- a: 1\n- a: 1\n"


def test_a_comment_is_one_line_whatever_its_text_is() -> None:
    assert comment_line("stacks/a.py:3\n---\nkind: X\u2028kind: Y\x85\r") == "# stacks/a.py:3 --- kind: X�kind: Y��\n"
