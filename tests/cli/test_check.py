"""Every kind of bad input, in real files and through the real command line: where, what is wrong, what is right."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import orjson
import pytest

from fleet.apps.etcd.versions import NEWEST

CLUSTERS = """
    import fleet

    fleet.Cluster("eu-1", labels={"env": "prod", "region": "eu"})
    fleet.Cluster("us-1", labels={"env": "prod", "region": "us"})
    """
QUICK = '[limits]\ntime = "3s"\ncpu = "60s"\nmemory = "512Mi"\noutput = "64Ki"\nresult = "1Mi"\n'


def stack(body: str, *, clusters: str = 'fleet.where(env="prod")', name: str = "orders", imports: str = "") -> str:
    """A file whose stack's body starts at line 6."""
    head = f"import fleet\n\n{imports}\n@fleet.stack(clusters={clusters})\n"
    return head + f"def {name}(cluster: fleet.Cluster) -> None:\n" + _indented(body)


def _indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in dedent(body).strip("\n").splitlines())


@dataclass(frozen=True)
class Bad:
    """Files, and what must be said about them."""

    name: str
    files: dict[str, str]
    at: str
    says: str
    hint: str
    field: str | None = None
    settings: str = QUICK


def one(name: str, body: str, at: int, says: str, hint: str, field: str | None = None, **more: str) -> Bad:
    return Bad(name, {"stacks/orders.py": stack(body, **more)}, f"stacks/orders.py:{at}", says, hint, field)


def app(name: str, body: str, at: int, says: str, hint: str, field: str | None = None) -> Bad:
    return one(name, body, at, says, hint, field, imports="from fleet.apps import Etcd")


BAD = [
    app("a wrong type", 'Etcd("db", version="3.5", members="3")', 6, "must be a whole number", "1, 3, 5", "members"),
    app("an unknown field", 'Etcd("db", version="3.5", member=3)', 6, "no field 'member'", "'members'?", "member"),
    app("an even member count", 'Etcd("db", version="3.5", members=4)', 6, "must be odd", "3 or 5", "members"),
    app("a bad version", 'Etcd("db", version="2.3")', 6, "must be a release of etcd", "newest", "version"),
    app("a version that is none", 'Etcd("db", version="new")', 6, "'new'", "", "version"),
    app(
        "too little storage", 'Etcd("db", version="3.5", storage="1")', 6, "too little", "256Mi is the least", "storage"
    ),
    app(
        "a quota that does not fit",
        """
        from fleet.apps.etcd import EtcdConfig
        Etcd("db", version="3.5", storage="1Gi", config=EtcdConfig(quota="10Gi"))
        """,
        7,
        "is as large as the storage",
        "less than 1Gi",
        "config.quota",
    ),
    app("a name that is none", 'Etcd("Orders DB", version="3.5")', 6, "is not a name", "'orders-db' would be", "name"),
    app(
        "a duplicate name",
        'Etcd("db", version="3.5")\nEtcd("db", version="3.5")',
        7,
        "declared twice",
        "stacks/orders.py:6",
        "name",
    ),
    app(
        "a dependency cycle",
        """
        Etcd("a", version="3.5", opts=fleet.Options(depends_on=["b"]))
        Etcd("b", version="3.5", opts=fleet.Options(depends_on=["a"]))
        """,
        6,
        "dependency cycle",
        "take one of these out",
        "opts.depends_on",
    ),
    app(
        "an attribute that an app does not have",
        'fleet.export("url", Etcd("db", version="3.5").endpont)',
        6,
        "Etcd has no 'endpont'",
        "did you mean 'endpoint'?",
    ),
    one("an attribute that a cluster does not have", "cluster.region", 6, "Cluster has no 'region'", "there are: "),
    one("an exception in user code", 'int("three")', 6, "invalid literal for int()", "for cluster 'eu-1'"),
    one(
        "an exception deep in a library",
        'json.loads("{")',
        6,
        "JSONDecodeError",
        "raised in json.decoder",
        imports="import json",
    ),
    one("an endless loop", "while True: pass", 6, "took longer than 3 s", "loop without end"),
    one(
        "an endless loop that catches everything",
        "while True:\n    try:\n        sum(range(100_000))\n    except BaseException:\n        pass",
        8,
        "took longer than 3 s",
        "loop without end",
    ),
    one("a sleep without end", "import time\ntime.sleep(1e6)", 7, "took longer than 3 s", "raise time"),
    one("1 GB of output", "for _ in range(1024): print('x' * 2**20)", 6, "65536 bytes of output", "print less"),
    one(
        "1 GB of output past Python",
        "import os\nwhile True: os.write(1, b'x' * 2**20)",
        7,
        "65536 bytes of output",
        "print less",
    ),
    one(
        "a huge result",
        """
        data = {"x": "y" * 2**21}
        fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": data})
        """,
        4,
        "the result has",
        "raise result under [limits]",
    ),
    one("1 GB of memory", "x = []\nwhile True: x.append(bytearray(2**20))", 7, "more than 512 MiB of memory", "memory"),
    one("an end of the process", "import os\nos._exit(0)", 7, "cannot start or end processes", "raise an error"),
    one("an end by sys.exit", "import sys\nsys.exit(0)", 7, "ended the process", "raise an error"),
    one("a crash", "import ctypes\nctypes.string_at(0)", 7, "crashed: Segmentation fault", "outside Python"),
    one("an end past Python", "import ctypes\nctypes.CDLL(None)._exit(3)", 4, "exit code 3", "raise an error"),
    one("a child process", "import os\nos.fork()", 7, "cannot start or end processes", "read that"),
    one("a program", "import subprocess\nsubprocess.run(['true'])", 7, "cannot start or end processes", "read that"),
    one(
        "the network",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        7,
        "cannot use the network",
        "read that",
    ),
    one("endless recursion", "def again(): again()\nagain()", 6, "calls itself without end", "at this line"),
    one("a misspelt app", "pass", 3, "fleet.apps has no 'Etdc'", "'Etcd'?", imports="from fleet.apps import Etdc"),
    one("a misspelt name of fleet", "fleet.Manifst({})", 6, "fleet has no 'Manifst'", "'Manifest'?"),
    Bad(
        "a stack that goes nowhere",
        {"stacks/orders.py": "import fleet\n\n\n@fleet.stack\ndef orders(cluster: fleet.Cluster) -> None: ..."},
        "stacks/orders.py:4",
        "@fleet.stack has to be told where the stack goes",
        '@fleet.stack(clusters=["NAME"])',
    ),
    one(
        "a file of the machine",
        'open("/var/lib/shop/settings")',
        6,
        "No such file or directory: '/var/lib/shop/settings'",
        "a stack sees its repository and Python, and nothing else of the machine",
    ),
    one("a missing module", "pass", 3, "there is no module 'jsn'", "did you mean 'json'?", imports="import jsn"),
    one(
        "random values",
        """
        import random
        fleet.Manifest({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seed"}, "data": {"x": str(random.random())}
        })
        """,
        7,
        "ConfigMap orders/seed in cluster eu-1 differs between two evaluations",
        "no random numbers",
        "data.x",
    ),
    one(
        "the order of a set",
        """
        names = ",".join({"a", "b", "c", "d", "e", "f", "g"})
        fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "set"}, "data": {"x": names}})
        """,
        7,
        "differs between two evaluations",
        "no order of sets",
        "data.x",
    ),
    one(
        "the date of today",
        """
        import datetime
        labels = {"day": str(datetime.date.today())}
        fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "day", "labels": labels}})
        """,
        8,
        "differs between two evaluations",
        "no clock",
        "metadata.labels.day",
    ),
    one("a syntax error", "if True print(1)", 6, "syntax error", "look at column"),
    one(
        "no cluster that matches",
        "pass",
        4,
        "no cluster matches",
        "eu, us",
        "clusters",
        clusters='fleet.where(region="asia")',
    ),
    one(
        "an unknown label",
        "pass",
        4,
        "no cluster has a label 'evn'",
        "did you mean 'env'?",
        "clusters",
        clusters='fleet.where(evn="prod")',
    ),
    one(
        "an unknown cluster",
        "pass",
        4,
        "there is no cluster 'eu1'",
        "did you mean 'eu-1'?",
        "clusters",
        clusters='["eu1"]',
    ),
    one("a label that one cluster lacks", 'cluster.labels["tier"]', 6, "has no label 'tier'", "env, region"),
    one(
        "an export of no stack",
        'fleet.output("shop", "dsn")',
        6,
        "there is no stack 'shop'",
        "there are none",
        "output",
    ),
    Bad(
        "an export that the stack has not",
        {
            "stacks/orders.py": stack('fleet.output("base", "dns")'),
            "stacks/base.py": stack('fleet.export("dsn", "x")', name="base"),
        },
        "stacks/orders.py:6",
        "stack 'base' has no export 'dns'",
        "did you mean 'dsn'?",
        "output",
    ),
    Bad(
        "stacks in a circle",
        {
            "stacks/a.py": stack('fleet.export("x", fleet.output("b", "x"))', name="a"),
            "stacks/b.py": stack('fleet.export("x", fleet.output("a", "x"))', name="b"),
        },
        "stacks/a.py:6",
        "a → b → a",
        "take one dependency out",
        "output",
    ),
    Bad(
        "two stacks of one name",
        {"stacks/a.py": stack("pass"), "stacks/b.py": stack("pass")},
        "stacks/b.py:4",
        "there are two stacks 'orders'",
        "stacks/a.py:4",
        "name",
    ),
    Bad(
        "an object of two stacks",
        {
            f"stacks/{name}.py": stack(
                'fleet.Manifest({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c", "namespace": "x"}})',
                name=name,
            )
            for name in ("a", "b")
        },
        "stacks/b.py:6",
        "is wanted by two stacks, 'a' and 'b'",
        "stacks/a.py:6",
        "name",
    ),
    Bad(
        "a cluster defined twice",
        {"clusters/more.py": 'import fleet\n\nfleet.Cluster("eu-1")\n', "stacks/orders.py": stack("pass")},
        "clusters/more.py:3",
        "cluster 'eu-1' is defined twice",
        "clusters/all.py:4",
        "name",
    ),
    Bad(
        "a syntax error in a sibling",
        {"stacks/orders.py": stack("pass", imports="import shared"), "stacks/shared.py": "x = = 1\n"},
        "stacks/shared.py:1",
        "syntax error",
        "look at column 5",
    ),
    Bad(
        "an exception in a sibling",
        {"stacks/orders.py": stack("shared.f()", imports="import shared"), "stacks/shared.py": "def f():\n    1 / 0\n"},
        "stacks/shared.py:2",
        "ZeroDivisionError",
        "while stack 'orders' was evaluated for cluster 'eu-1'",
    ),
    Bad(
        "a wrong setting",
        {"stacks/orders.py": stack("pass")},
        "fleet.toml:2",
        "does not take 'soon'",
        'such as "30s"',
        "limits.time",
        settings='[limits]\ntime = "soon"\n',
    ),
]


def write(root: Path, files: dict[str, str], settings: str = QUICK) -> Path:
    for name, text in {"fleet.toml": settings, "clusters/all.py": dedent(CLUSTERS), **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def fleet(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleet", *arguments],
        cwd=root,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1"},
    )


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_input_is_told_with_file_line_field_and_hint(bad: Bad, tmp_path: Path) -> None:
    twice = "between two evaluations" in bad.says  # the others do not need the second one, and half the time
    result = fleet(write(tmp_path, bad.files, bad.settings), "check", *([] if twice else ["--once"]))

    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    where = f"error: {bad.at}: " + (f"{bad.field}: " if bad.field else "")
    assert where in result.stderr
    assert bad.says in result.stderr
    assert "\n  hint: " in result.stderr
    assert bad.hint in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_right_repository_is_told_with_what_it_has(tmp_path: Path) -> None:
    write(tmp_path, {"stacks/orders.py": stack("pass"), "stacks/words.py": "WORDS = 1\n", "stacks/_shared.py": ""})

    result = fleet(tmp_path, "check")

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "STACK    CLUSTERS     OBJECTS   SOURCE",
        "orders   eu-1, us-1   0         stacks/orders.py:4",
        "",
        "All right: 1 stack, 2 clusters, the same result twice.",
    ]
    assert result.stderr == "stacks/words.py declares no stack; start the name with _ if it is shared code\n"


def test_what_a_stack_prints_is_shown_and_never_part_of_the_result(tmp_path: Path) -> None:
    write(tmp_path, {"stacks/orders.py": stack('print(cluster.name, "is", cluster.labels["region"])')})

    result = fleet(tmp_path, "check")

    assert result.returncode == 0
    assert result.stderr == "stacks/orders.py printed:\n    eu-1 is eu\n    us-1 is us\n"
    assert "printed" not in result.stdout
    assert orjson.loads(fleet(tmp_path, "check", "-o", "json").stdout)["printed"] == {
        "stacks/orders.py": "eu-1 is eu\nus-1 is us"
    }
    assert fleet(tmp_path, "render").stderr == ""


def test_a_release_of_etcd_that_is_not_known_is_named_with_the_newest_and_may_exist(tmp_path: Path) -> None:
    versions = ('"3.5.99"', '"3.5.99", image="localhost/etcd:mine"', f'"{NEWEST["3.5"]}"', '"3.5"')
    apps = "; ".join(f'Etcd("db-{number}", version={text})' for number, text in enumerate(versions))
    write(tmp_path, {"stacks/orders.py": stack(f"from fleet.apps import Etcd; {apps}")})

    result = fleet(tmp_path, "check")

    assert result.returncode == 0, "it may have been released since"
    (remark,) = result.stderr.splitlines()
    assert remark.startswith("stacks/orders.py:6: db-0: etcd 3.5.99 is not known to this release of fleet"), remark
    assert f"write '{NEWEST['3.5']}' if that is meant" in remark


def test_problems_are_data_too(tmp_path: Path) -> None:
    write(tmp_path, {"stacks/a.py": stack("1 / 0", name="a"), "stacks/b.py": stack("print('x')\n2 / 0", name="b")})

    result = fleet(tmp_path / "stacks", "check", "-o", "json")

    assert result.returncode == 2
    data = orjson.loads(result.stdout)
    assert not data["ok"]
    assert data["stacks"] == []
    assert [(one["file"], one["line"], one["output"]) for one in data["problems"]] == [
        ("stacks/a.py", 6, None),
        ("stacks/b.py", 7, "x"),
    ]


def test_a_check_outside_a_repository_says_how_to_make_one(tmp_path: Path) -> None:
    result = fleet(tmp_path, "check")

    assert result.returncode == 2
    assert "fleet init" in result.stderr


@pytest.mark.parametrize("body", ["pass", 'fleet.apps.Etcd("db", version="3.5")'], ids=["no app", "an app"])
def test_the_command_line_imports_neither_pydantic_nor_the_model(tmp_path: Path, body: str) -> None:
    write(tmp_path, {"stacks/orders.py": stack(body, imports="import fleet.apps")})
    code = (
        "import sys; from fleet.cli import run; run(['check']); print('pydantic' in sys.modules, 'rich' in sys.modules)"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    assert "All right" in result.stdout
    assert result.stdout.splitlines()[-1] == "False False"
