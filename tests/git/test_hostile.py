"""Repositories and servers of people who wish us ill. What a clone or a remote holds never runs, never reaches out of
its tree, and never takes more than the limits."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleet.errors import FleetError, PolicyError, ResourceError
from fleet.errors import TimeoutError as LateError
from fleet.git.environment import MIB, GitLimits
from fleet.git.history import first_parents, read_history
from fleet.git.merge import merged_tree, propose
from fleet.git.publish import FLEET, fetch_tips
from fleet.git.repository import GitRepository, Mirror
from fleet.git.signature import verify_signature
from fleet.git.status import report
from fleet.git.status_records import StatusReport
from tests.git.repositories import ENVIRONMENT, bare, clone, commit, git


def tree_of(path: Path, *entries: tuple[str, bytes, str]) -> str:
    """A tree object by hand: (mode, name, id)."""
    raw = path / "raw"
    raw.write_bytes(b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(one) for mode, name, one in entries))
    made = git(path, "hash-object", "-w", "-t", "tree", "--literally", str(raw))
    raw.unlink()
    return made


def blob_of(path: Path, content: str = "x") -> str:
    return git(path, "hash-object", "-w", "--stdin", stdin=content)


# What a clone can have configured


def trap(path: Path, marker: Path) -> str:
    """A command that leaves a trace when anybody runs it."""
    script = path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch {marker}\necho x\n")
    script.chmod(0o755)
    return str(script)


@dataclass(frozen=True)
class Case:
    """A setting, what fleet does where it could matter, and what git by itself runs the program at."""

    setting: str
    ours: Callable[[GitRepository], object]
    plain: tuple[str, ...]
    remote: str = ""  # of the clone: "{served}" is a path, "{locked}" a server that wants a password


def merge(repository: GitRepository) -> None:
    merged_tree(repository, repository.resolve("main"), repository.resolve("change"))


def look(repository: GitRepository) -> None:
    address = repository.remote()
    assert address
    with fetch_tips(repository, address, ["refs/heads/main"]):
        pass


def tell(repository: GitRepository) -> None:
    report(repository, [StatusReport("orders", "eu-1", repository.resolve().id, health="Healthy")])


def verify(repository: GitRepository) -> None:
    nobody = repository.root.parent / "signers"
    nobody.write_text("")
    verify_signature(repository, repository.resolve("signed"), nobody)


def edit(repository: GitRepository) -> None:
    repository.git.run("edit", "notes", "edit", "HEAD", variables=FLEET.variables)


IN_A_TERMINAL = f"""alias.page=!{sys.executable} -c "import pty; pty.spawn(['git', 'log'])" """
NOWHERE, SSH = "git://127.0.0.1:1/x.git", "ssh://git@127.0.0.1:1/x.git"
CASES = [
    Case("core.alternateRefsCommand", look, ("fetch", "origin", "main"), "{served}"),
    Case("core.askPass", look, ("ls-remote", "origin"), "{locked}"),
    Case("core.editor", edit, ("notes", "edit", "HEAD")),
    Case("core.fsmonitor", GitRepository.dirt, ("status",)),
    Case("core.gitProxy", lambda r: r.git.run("ask", "ls-remote", NOWHERE, protocol="git"), ("ls-remote", NOWHERE)),
    Case("core.pager", lambda r: r.git.run("page", "-c", IN_A_TERMINAL, "page"), ("-c", IN_A_TERMINAL, "page")),
    Case("core.sshCommand", look, ("ls-remote", "origin"), SSH),
    Case("credential.helper", look, ("ls-remote", "origin"), "{locked}"),
    Case("credential.{remote}.helper", look, ("ls-remote", "origin"), "{locked}"),
    Case("diff.external", lambda r: r.changes("HEAD~1", "HEAD"), ("diff", "HEAD~1", "HEAD")),
    Case("diff.evil.command", lambda r: r.changes("HEAD~1", "HEAD"), ("diff", "HEAD~1", "HEAD")),
    Case("diff.evil.textconv", lambda r: r.changes("HEAD~1", "HEAD"), ("diff", "HEAD~1", "HEAD")),
    Case("filter.evil.clean", GitRepository.dirt, ("status",)),
    Case("filter.evil.process", GitRepository.dirt, ("status",)),
    Case("filter.evil.smudge", lambda r: r.tree().materialise(r.root.parent / "target"), ("archive", "HEAD")),
    Case("gpg.program", verify, ("verify-commit", "signed")),
    Case("gpg.openpgp.program", verify, ("verify-commit", "signed")),
    Case("gpg.ssh.program", verify, ("verify-commit", "signed")),
    Case("gpg.x509.program", verify, ("verify-commit", "signed")),
    Case("merge.evil.driver", merge, ("merge-tree", "--write-tree", "main", "change")),
    Case("remote.{remote}.receivepack", tell, ("push", "{remote}", "main:refs/heads/x"), "{served}"),
    Case("remote.{remote}.uploadpack", look, ("ls-remote", "{remote}"), "{served}"),
]
MARKS = {"ssh": "SSH SIGNATURE", "x509": "SIGNED MESSAGE"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.setting)
def test_no_program_that_a_clones_configuration_names_is_run(tmp_path: Path, home: Path, case: Case) -> None:
    path = clone(tmp_path / "clone", a="1\n2\n3\n4\n5\n")
    git(path, "branch", "change")
    commit(path, a="1\n2\n3\n4\n6\n")
    git(path, "switch", "--quiet", "change")
    commit(path, a="0\n2\n3\n4\n5\n")
    git(path, "switch", "--quiet", "main")
    (path / ".git" / "info").mkdir(exist_ok=True)
    (path / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    mark = MARKS.get(case.setting.split(".")[1], "PGP SIGNATURE")
    about = git(path, "cat-file", "commit", "HEAD").split("\n\n")[0]
    made = f"{about}\ngpgsig -----BEGIN {mark}-----\n  \n eA==\n -----END {mark}-----\n\nx\n"
    git(path, "branch", "signed", git(path, "hash-object", "-w", "-t", "commit", "--stdin", stdin=made))
    other = clone(tmp_path / "other", bare(tmp_path / "bare.git"), b="2")
    (path / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    commit(other, b="3")
    git(other, "push", "--quiet", "origin", "main")
    with serving(locked) as url:
        remote = case.remote.format(served=f"file://{tmp_path}/bare.git", locked=url)
        git(path, "remote", "add", "origin", remote)
        marker = tmp_path / "was-here"
        git(path, "config", case.setting.format(remote=remote), trap(tmp_path, marker))
        git(path, "config", "gpg.ssh.allowedSignersFile", "/dev/null")
        os.utime(path / "a", (0, 0))  # is it still the same? Only its content says
        with suppress(FleetError):
            case.ours(GitRepository.find(path))
        assert not marker.exists()
        plain = [word.format(remote=remote) if word == "{remote}" else word for word in case.plain]
        environment = {**ENVIRONMENT, "HOME": str(home), "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(
            ["git", *plain], cwd=path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert marker.exists(), "git by itself runs it: the trap is one"


def locked(request: BaseHTTPRequestHandler) -> None:
    request.send_response(403 if request.headers.get("Authorization") else 401)
    request.send_header("WWW-Authenticate", 'Basic realm="git"')
    request.send_header("Content-Length", "0")
    request.end_headers()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("http.followRedirects", "true"),
        ("http.{url}.followRedirects", "true"),
        ("http.proxy", "{inside}"),
        ("http.{url}.proxy", "{inside}"),
        ("remote.{url}.proxy", "{inside}"),
        ("http.{url}.curloptResolve", "127.0.0.1:{port}:127.0.0.2"),
    ],
)
def test_a_clones_configuration_does_not_lead_elsewhere(tmp_path: Path, home: Path, setting: str, value: str) -> None:
    asked: list[str] = []

    def inside(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        request.send_error(404)

    with serving(inside) as internal, serving(sending_to(internal)) as url:
        path = clone(tmp_path / "clone")
        git(path, "remote", "add", "origin", url)
        proxy, port = internal.removesuffix("/fleet.git"), url.split(":")[2].split("/")[0]
        git(path, "config", setting.format(url=url), value.format(inside=proxy, port=port))
        with pytest.raises(PolicyError, match="another address"):
            look(GitRepository.find(path))
        assert asked == []
        environment = {**ENVIRONMENT, "HOME": str(home)}
        said = subprocess.run(["git", "fetch", url], cwd=path, env=environment, capture_output=True, check=False).stderr
        assert asked or b"Failed to connect" in said, "git by itself goes there"


def test_a_clone_cannot_say_that_certificates_are_not_to_be_checked(tmp_path: Path, home: Path) -> None:
    path, url = clone(tmp_path / "clone"), "https://git.example.com/fleet.git"
    ask = ("config", "--get-urlmatch", "http.sslVerify", url)
    git(path, "config", "http.https://git.example.com/.sslVerify", "false")
    assert git(path, *ask) == "false"
    assert GitRepository.find(path).git.run("ask", *ask).text == "true"
    assert home.exists()


def test_a_hook_of_a_clones_configuration_is_switched_off(tmp_path: Path) -> None:
    """Git has those since 2.54; what an older one reads of its configuration is the same."""
    path = clone(tmp_path / "clone", a="1")
    git(path, "config", "hook.evil one.command", "touch was-here")
    git(path, "config", "hook.evil one.event", "post-index-change")
    git(path, "config", "hook.evil one.enabled", "true")
    assert GitRepository.find(path).git.run("ask", "config", "--bool", "--get", "hook.evil one.enabled").text == "false"


@pytest.mark.parametrize(
    "hook", ["post-checkout", "post-index-change", "reference-transaction", "pre-push", "fsmonitor"]
)
def test_no_hook_of_a_clone_is_run(tmp_path: Path, hook: str) -> None:
    path, marker = clone(tmp_path / "clone", a="1"), tmp_path / "was-here"
    (path / ".git" / "hooks").mkdir(exist_ok=True)
    (path / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {marker}\n")
    (path / ".git" / "hooks" / hook).chmod(0o755)
    GitRepository.find(path).tree().materialise(tmp_path / "target")
    mirror = Mirror.of(str(path), tmp_path / "cache", by_person=True)
    mirror.fetch()
    assert mirror.repository.tree("main").read("a") == b"1"
    assert not marker.exists()


def test_attributes_change_no_byte(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    (path / ".gitattributes").write_text("a text eol=crlf ident working-tree-encoding=UTF-16 export-ignore\n")
    (path / "a").write_bytes(b"$Id$ $Format:%H$\n")
    git(path, "add", ".gitattributes")
    blob = git(path, "hash-object", "-w", "--no-filters", "a")
    git(path, "update-index", "--add", "--cacheinfo", f"100644,{blob},a")
    git(path, "commit", "--quiet", "--message", "attributes")
    GitRepository.find(path).tree().materialise(tmp_path / "target")
    assert (tmp_path / "target" / "a").read_bytes() == b"$Id$ $Format:%H$\n"


def test_a_mirror_never_borrows_objects_from_where_its_remote_says(tmp_path: Path) -> None:
    """A remote's alternates are read there, as its owner; what comes here is whole."""
    secret = clone(tmp_path / "secret", a="theirs")
    remote = bare(tmp_path / "bare.git")
    (remote / "objects" / "info" / "alternates").write_text(f"{secret}/.git/objects\n")
    path = clone(tmp_path / "clone", remote, b="2")
    assert git(path, "rev-parse", "HEAD")
    mirror = Mirror.of(str(remote), tmp_path / "cache", by_person=True)
    mirror.fetch()
    assert not (mirror.repository.root / "objects" / "info" / "alternates").exists()
    assert not (mirror.repository.root / "objects" / "info" / "http-alternates").exists()
    with pytest.raises(FleetError):
        mirror.repository.tree(git(secret, "rev-parse", "HEAD")).read("a")


# Trees that no checkout would make


@pytest.mark.parametrize(
    ("one", "other"), [(b"a", b"A"), ("é".encode(), "e\u0301".encode()), ("ﬁ".encode(), b"fi"), (b"ss", "ß".encode())]
)
def test_two_names_for_one_file_are_refused(tmp_path: Path, one: bytes, other: bytes) -> None:
    path = clone(tmp_path / "clone")
    blob = blob_of(path)
    names = sorted((one, other))
    head = git(path, "commit-tree", tree_of(path, *(("100644", name, blob) for name in names)), "-m", "twins")
    with pytest.raises(PolicyError, match="the same file where case or accents are folded"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", [b"a", b"A"])
@pytest.mark.parametrize("mode", ["100644", "120000"])
def test_a_file_that_is_a_directory_too_is_refused(tmp_path: Path, name: bytes, mode: str) -> None:
    path = clone(tmp_path / "clone")
    inner = tree_of(path, ("100644", b"b", blob_of(path)))
    entries = sorted([(mode, b"a", blob_of(path)), ("40000", name, inner)], key=lambda one: one[1])
    head = git(path, "commit-tree", tree_of(path, *entries), "-m", "both")
    with pytest.raises(PolicyError, match="a directory of that name besides"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    twice = tree_of(path, *(("100644", b"a", blob_of(path, content)) for content in ("shown", "hidden")))
    tree = GitRepository.find(path).tree(git(path, "commit-tree", twice, "-m", "twice"))
    for read in (lambda: tree.materialise(tmp_path / "target"), lambda: tree.read("a"), tree.read_all):
        with pytest.raises(PolicyError, match="which is the same file"):
            read()


def test_a_name_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    head = git(path, "commit-tree", tree_of(path, ("100644", b"x" * 256, blob_of(path))), "-m", "long")
    with pytest.raises(PolicyError, match="a name over 255 bytes long"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")


@pytest.mark.parametrize("depth", [150, 3000])
def test_a_deep_tree_is_refused(tmp_path: Path, depth: int) -> None:
    path = clone(tmp_path / "clone")
    made = tree_of(path, ("100644", b"a", blob_of(path)))
    objects = path / ".git" / "objects"
    for _ in range(depth):  # a process for each would take a minute
        content = b"40000 d\0" + bytes.fromhex(made)
        whole = b"tree %d\0" % len(content) + content
        made = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        place = objects / made[:2] / made[2:]
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(whole))
    head = git(path, "commit-tree", made, "-m", "deep")
    with pytest.raises(FleetError, match=r"100 directories deep|cannot list the files"):
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def bomb(path: Path, levels: int = 3) -> str:
    """A tree of a thousand files for each file of the level below."""
    made, mode = blob_of(path), "100644"
    for _ in range(levels):
        made, mode = tree_of(path, *((mode, b"%03d" % number, made) for number in range(1000))), "40000"
    return made


def test_a_few_objects_that_unfold_to_a_billion_files_are_left_folded(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    head = git(path, "commit-tree", bomb(path), "-m", "bomb")
    with pytest.raises(ResourceError, match="cannot list the files"):
        GitRepository.find(path, limits=GitLimits(files=10_000)).tree(head).materialise(tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("levels", "limits", "refusal"),
    [
        (3, GitLimits(), "cannot list the files"),
        (2, GitLimits(), "more than 500000 files"),
        (2, GitLimits(merged_files=10**7, memory_bytes=128 * MIB), "more memory than it may have"),
    ],
)
def test_nor_are_they_unfolded_to_be_merged(tmp_path: Path, levels: int, limits: GitLimits, refusal: str) -> None:
    """Beside a file that one side removes and the other changes: so git looks into every directory."""
    path = clone(tmp_path / "clone", a="1", gone="1\n")
    tree = tree_of(path, ("100644", b"a", blob_of(path, "1")), ("40000", b"z", bomb(path, levels)))
    head = git(path, "commit-tree", tree, "-p", "HEAD", "-m", "bomb")
    commit(path, gone="2\n")
    repository = GitRepository.find(path, limits=limits)
    with pytest.raises(ResourceError, match=refusal):
        merged_tree(repository, repository.resolve("main"), repository.resolve(head))


def test_a_blob_that_inflates_to_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    (path / "zeros").write_bytes(bytes(64 * MIB))
    commit(path)
    (path / "zeros").unlink()
    with pytest.raises(ResourceError, match="zeros: it is over"):
        GitRepository.find(path).tree().materialise(tmp_path / "target")


# Commits that say more than a commit says


def poisoned(path: Path, shown: str, hidden: str, how: str) -> str:
    """A commit of the tree `shown` that names `hidden` besides, in a way that git itself takes no notice of."""
    header = git(path, "cat-file", "commit", "HEAD").split("\n\n")[0].splitlines()
    author = next(line for line in header if line.startswith("author "))
    committer = next(line for line in header if line.startswith("committer "))
    if how == "a header of its own":
        committer += f"\ntree {hidden}\ncommitter Eve <eve@example.com> never +0000"
    else:
        author = author.replace("Somebody", f"Eve{how}tree {hidden}{how}committer x{how}", 1)
    raw = f"tree {shown}\nparent {git(path, 'rev-parse', 'HEAD')}\n{author}\n{committer}\n\nan innocent change\n"
    made = git(path, "hash-object", "-w", "-t", "commit", "--stdin", stdin=raw)
    git(path, "fsck", "--strict")
    assert git(path, "rev-parse", f"{made}^{{tree}}") == shown
    return made


BREAKS = ["a header of its own", "\r", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("how", BREAKS, ids=ascii)
def test_a_commit_has_the_tree_that_git_says_and_no_other(tmp_path: Path, how: str) -> None:
    path = clone(tmp_path / "clone", a="shown")
    commit(path, a="hidden")
    hidden, shown = (git(path, "rev-parse", f"{revision}^{{tree}}") for revision in ("HEAD", "HEAD~1"))
    head = poisoned(path, shown, hidden, how)
    git(path, "branch", "evil", head)
    repository = GitRepository.find(path)
    found = repository.resolve("evil")
    assert (found.id, found.tree, found.subject) == (head, shown, "an innocent change")
    assert repository.tree("evil").read("a") == b"shown"
    assert [(one.commit, one.tree) for one in first_parents(repository, found, most=1)] == [(head, shown)]
    assert merged_tree(repository, repository.resolve("main"), found) == shown
    with fetch_tips(repository, None, ["refs/heads/evil"]) as tips:
        tip = tips["refs/heads/evil"]
        assert tip and tip.tree == shown
    report(repository, [StatusReport("orders", "eu-1", head, health="Healthy")], remote=None)
    assert [(one.revision, one.subject) for one in read_history(repository, None, "evil")] == [(head, found.subject)]


def test_a_time_that_no_calendar_has_is_none(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="1")
    about = git(path, "cat-file", "commit", "HEAD").split("\n\n")[0]
    made = re.sub(r"(?m)^(committer .*>) \d+ ", r"\1 4611686018427387904 ", about) + "\n\nlate\n"
    head = git(path, "hash-object", "-w", "-t", "commit", "--stdin", stdin=made)
    repository = GitRepository.find(path)
    report(repository, [StatusReport("orders", "eu-1", head, health="Healthy")], remote=None)
    assert [one.time for one in read_history(repository, None, head)] == [0]


def test_what_a_clone_has_written_down_about_its_commits_is_not_believed(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone", a="shown")
    commit(path, a="hidden")
    hidden, shown = (git(path, "rev-parse", f"{revision}^{{tree}}") for revision in ("HEAD", "HEAD~1"))
    git(path, "commit-graph", "write", "--reachable")
    graph = path / ".git" / "objects" / "info" / "commit-graph"
    graph.chmod(0o644)
    graph.write_bytes(graph.read_bytes().replace(bytes.fromhex(hidden), bytes.fromhex(shown)))
    assert git(path, "log", "-1", "--format=%T") == shown, "git by itself believes it"
    repository = GitRepository.find(path)
    assert [one.tree for one in first_parents(repository, repository.resolve(), most=1)] == [hidden]


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029"], ids=ascii)
def test_no_name_of_a_branch_speaks_for_another_one(tmp_path: Path, mark: str) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone", remote, a="shown")
    main = git(path, "rev-parse", "HEAD")
    commit(path, a="hidden")
    git(path, "push", "--quiet", "origin", f"HEAD:refs/heads/main{mark}/refs/heads/main")
    assert Mirror.of(str(remote), tmp_path / "cache", by_person=True).tips("main") == {"refs/heads/main": main}


# Servers


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked has had enough
                answer(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}/fleet.git"
    finally:
        listener.shutdown()
        listener.server_close()


def sending_to(address: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", address.removesuffix("/fleet.git") + request.path)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return elsewhere


def test_a_redirect_is_not_followed_whatever_is_configured(tmp_path: Path, home: Path) -> None:
    asked: list[str] = []

    def inside(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        request.send_error(404)

    with (
        serving(inside) as internal,
        serving(sending_to(internal)) as url,
        pytest.raises(PolicyError, match="another address"),
    ):
        (home / ".gitconfig").write_text(f'[http "{url}"]\n\tfollowRedirects = true\n')
        Mirror.of(url, tmp_path / "cache", by_person=True).fetch()
    assert asked == []


def test_endless_names_of_branches_end_at_the_limit_of_memory_or_time(tmp_path: Path) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        request.end_headers()
        request.wfile.write(b"001e# service=git-upload-pack\n0000")
        line = b"1" * 40 + b" refs/heads/" + b"x" * 60000 + b"\n"
        while True:
            request.wfile.write(b"%04x" % (len(line) + 4) + line)

    limits = GitLimits(transfer_seconds=30, transfer_memory_bytes=256 * MIB)
    with serving(endless) as url, pytest.raises((ResourceError, LateError)):
        Mirror.of(url, tmp_path / "cache", by_person=True, limits=limits).fetch()


def test_a_pack_that_unfolds_to_more_than_memory_is_not_unfolded(tmp_path: Path) -> None:
    pack, head = delta_bomb(size=2**31 - 1)

    def serve(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        kind = "advertisement" if request.command == "GET" else "result"
        request.send_response(200)
        request.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        request.end_headers()
        if request.command == "GET":
            line = f"{head} refs/heads/main\0ofs-delta\n".encode()
            request.wfile.write(b"001e# service=git-upload-pack\n0000%04x%b0000" % (len(line) + 4, line))
        else:
            request.wfile.write(b"0008NAK\n" + pack)

    limits = GitLimits(transfer_seconds=60, transfer_memory_bytes=512 * MIB)
    with serving(serve) as url, pytest.raises(ResourceError, match="more memory than it may have"):
        Mirror.of(url, tmp_path / "cache", by_person=True, limits=limits).fetch()


def delta_bomb(size: int) -> tuple[bytes, str]:
    """A pack of a few kilobytes with a commit, whose one file is the same megabyte over and over."""

    def varint(number: int) -> bytes:
        parts = []
        while True:
            parts.append((number & 0x7F) | (0x80 if number > 0x7F else 0))
            number >>= 7
            if not number:
                return bytes(parts)

    def entry(kind: int, length: int, body: bytes) -> bytes:
        first = (kind << 4) | (length & 15)
        rest = length >> 4
        return bytes((first | 0x80,)) + varint(rest) + body if rest else bytes((first,)) + body

    def named(kind: bytes, content: bytes) -> bytes:
        return hashlib.sha1(kind + b" %d\0" % len(content) + content, usedforsecurity=False).digest()

    base = bytes(0xFFFFFF)
    copies, rest = divmod(size, len(base))
    copy = b"\xf0\xff\xff\xff"  # from the beginning, 0xffffff bytes
    delta = varint(len(base)) + varint(size) + copy * copies + b"\xf0" + rest.to_bytes(3, "little")
    tree = b"100644 bomb\0" + named(b"blob", base)
    commit = (
        b"tree " + named(b"tree", tree).hex().encode() + b"\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nx\n"
    )
    objects = [
        entry(1, len(commit), zlib.compress(commit)),
        entry(2, len(tree), zlib.compress(tree)),
        entry(3, len(base), zlib.compress(base)),
        entry(7, len(delta), named(b"blob", base) + zlib.compress(delta)),
    ]
    whole = b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big") + b"".join(objects)
    return whole + hashlib.sha1(whole, usedforsecurity=False).digest(), named(b"commit", commit).hex()


def test_a_server_that_says_nothing_ends_at_the_limit_of_time(tmp_path: Path) -> None:
    with serving(lambda request: time.sleep(5)) as url, pytest.raises(LateError, match="longer than 2 s"):
        Mirror.of(url, tmp_path / "cache", by_person=True, limits=GitLimits(transfer_seconds=2)).fetch()


# What is shown


def test_names_and_messages_reach_no_terminal_as_commands(tmp_path: Path) -> None:
    path = clone(tmp_path / "clone")
    name = b"\x1b]0;owned\x07\xe2\x80\xae"
    link = git(path, "hash-object", "-w", "--stdin", stdin="/etc/passwd")
    head = git(path, "commit-tree", tree_of(path, ("120000", name, link)), "-m", "\x1b[2J")
    with pytest.raises(PolicyError) as refused:
        GitRepository.find(path).tree(head).materialise(tmp_path / "target")
    shown = str(refused.value)
    assert "]0;owned" in shown
    assert not [letter for letter in shown if letter in "\x1b\x07\u202e"]

    def rude(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        request.end_headers()
        request.wfile.write(b"001e# service=git-upload-pack\n0000")
        line = b"ERR \x1b]0;owned\x07\xe2\x80\xae\n"
        request.wfile.write(b"%04x" % (len(line) + 4) + line)

    with serving(rude) as url, pytest.raises(FleetError, match="owned") as refused_by:
        Mirror.of(url, tmp_path / "cache", by_person=True).fetch()
    assert not [letter for letter in str(refused_by.value) if letter in "\x1b\x07\u202e"]


def test_the_encoding_that_a_clone_names_is_not_that_of_what_is_written_and_read(tmp_path: Path, home: Path) -> None:
    path = clone(tmp_path / "clone", a="1")
    included = tmp_path / "included"
    included.write_text("[i18n]\n\tcommitEncoding = latin-1\n\tlogOutputEncoding = latin-1\n")
    git(path, "config", "include.path", str(included))
    repository = GitRepository.find(path)
    made = propose(repository, "main", {"b": b"2"}, "Zurück zu café\n")
    report(repository, [StatusReport("orders", "eu-1", made, health="Healthy")], remote=None)
    for commit_id in (made, "fleet/status", "refs/notes/fleet"):
        headers = git(path, "cat-file", "commit", commit_id).partition("\n\n")[0]
        assert [line.partition(" ")[0] for line in headers.splitlines() if not line.startswith("parent ")] == [
            "tree",
            "author",
            "committer",
        ]
    assert repository.git.run("read", "log", "-1", "--format=%s", made).text == "Zurück zu café"
