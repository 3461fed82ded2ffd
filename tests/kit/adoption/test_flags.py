"""What a flag says, as a file has it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kit.adoption.flags import InFile, list_flags, read_boolean, read_list, read_nanoseconds, read_number


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("0", 0), ("100ms", 10**8), ("1h30m", 5400 * 10**9), ("1.5s", 15 * 10**8), ("5", None), ("5s later", None)],
)
def test_times_are_read_as_go_writes_them(text: str, nanoseconds: int | None) -> None:
    assert read_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(("text", "value"), [("T", True), ("0", False), ("yes", None), ("", None)])
def test_booleans_are_read_as_go_takes_them(text: str, value: bool | None) -> None:
    assert read_boolean(text) is value


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("-7", None), ("7.0", None), ("٧", None), ("", None)])
def test_numbers_are_whole_and_plain(text: str, value: int | None) -> None:
    assert read_number(text) == value


def test_a_list_is_parted_by_commas() -> None:
    assert (read_list("a,b"), read_list("")) == (["a", "b"], [])


def test_a_flag_goes_under_its_key_and_into_its_section() -> None:
    settings: dict[str, Any] = {}
    table = {
        **list_flags([("log-level log-file", str), ("port", read_number)]),
        "cert": InFile(str, "cert_file", "tls"),
        "key": InFile(str, "key_file", "tls"),
    }
    for name, text in (("port", "4222"), ("cert", "/tls/tls.crt"), ("key", "/tls/tls.key")):
        table[name].put(settings, name, table[name].read(text))
    assert settings == {"port": 4222, "tls": {"cert_file": "/tls/tls.crt", "key_file": "/tls/tls.key"}}
    assert set(table) == {"log-level", "log-file", "port", "cert", "key"}
