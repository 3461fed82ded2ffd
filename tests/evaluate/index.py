"""An index of packages on loopback, with wheels made here: what uv and pip fetch from, without the world."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def wheel(name: str, version: str, files: dict[str, str]) -> bytes:
    """One for every Python, with these files at its top."""
    about = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in content.items()]
    content[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,"]) + "\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return packed.getvalue()


def source(name: str, version: str, setup: str) -> bytes:
    """A source distribution, whose setup.py would run when it is built."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {
            "setup.py": setup,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@dataclass
class Index:
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)  # package → file name → content
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, package: str, file: str, content: bytes) -> str:
        """The line of a lockfile for it."""
        self.files.setdefault(package, {})[file] = content
        version = file.removesuffix(".tar.gz").split("-")[1]
        return f"{package}=={version} --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"

    def add_wheel(self, name: str, version: str, files: dict[str, str]) -> str:
        return self.add(name, f"{name}-{version}-py3-none-any.whl", wheel(name, version, files))

    def answer(self, path: str) -> bytes | None:
        match path.strip("/").split("/"):
            case ["simple", package] if package in self.files:
                links = [f'<a href="/files/{package}/{file}">{file}</a>' for file in self.files[package]]
                return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
            case ["files", package, file]:
                return self.files.get(package, {}).get(file)
        return None


@contextmanager
def serving() -> Iterator[Index]:
    index = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            content = index.answer(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/html" if "/simple/" in self.path else "application/octet-stream")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
