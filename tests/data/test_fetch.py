"""Well-known sets: downloaded over https and checked, or taken from what the user has."""

import dataclasses
import gzip
import hashlib
import http.server
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_sets import cifar, mnist

from convdyno.data import fetch
from convdyno.data.detect import open_source
from convdyno.data.fetch import KNOWN, download, get
from convdyno.errors import BadData, UnknownName, UsageError


def quiet(line: str) -> None:
    """Say nothing."""


class Served(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and a way out of https."""

    def do_GET(self) -> None:
        if self.path.endswith("/out"):
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/plain")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """An https server of our own, and the folder it shows."""
    if shutil.which("openssl") is None and os.environ.get("CI") != "true":
        pytest.skip("openssl makes the certificate")
    key, certificate, folder = tmp_path / "key", tmp_path / "certificate", tmp_path / "served"
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def handle(*arguments: object) -> Served:
        return Served(*arguments, directory=str(folder))  # type: ignore[arg-type]

    served = http.server.ThreadingHTTPServer(("localhost", 0), handle)  # type: ignore[arg-type]
    served.socket = context.wrap_socket(served.socket, server_side=True)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"https://localhost:{served.server_address[1]}/", folder
    served.shutdown()
    served.server_close()


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_a_set_is_downloaded_checked_and_unpacked(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    _, labels = mnist(folder, zipped=True)
    files = {path.name: md5(path) for path in folder.iterdir()}
    raw = {
        path.name[:-3]: hashlib.md5(gzip.decompress(path.read_bytes())).hexdigest()
        for path in folder.iterdir()
    }
    counts = {"train": 7, "validation": 7}
    known = dataclasses.replace(
        KNOWN["mnist"], addresses=("https://localhost:1/", address), files=files, content=raw,
        counts=counts,
    )  # fmt: skip
    monkeypatch.setitem(fetch.KNOWN, "mnist", known)
    lines: list[str] = []
    got = get("mnist", tmp_path / "mnist", progress=lines.append)
    assert got.warnings == () and got.counts == counts
    assert len(lines) == 8 and lines[1] == f"downloading {address}{next(iter(files))}"
    assert open_source(str(tmp_path / "mnist"), "train").labels.tolist() == labels.tolist()  # type: ignore[union-attr]
    again = get("mnist", tmp_path / "mnist", progress=lambda line: pytest.fail(line))
    assert again.counts == counts


def test_a_wrong_checksum_leaves_nothing(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    mnist(folder, zipped=True)
    known = dataclasses.replace(KNOWN["mnist"], addresses=(address,))
    monkeypatch.setitem(fetch.KNOWN, "mnist", known)
    with pytest.raises(BadData, match=r"has MD5 .*, not f68b.*--from"):
        get("mnist", tmp_path / "here" / "mnist", progress=quiet)
    assert list((tmp_path / "here").iterdir()) == []


def test_only_https(server: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BadData, match="only https is used"):
        download(("http://localhost/",), "file", "", tmp_path / "file", quiet)
    with pytest.raises(BadData, match="which is not https"):
        download((server[0],), "out", "", tmp_path / "file", quiet)
    assert all(address.startswith("https://") for k in KNOWN.values() for address in k.addresses)


@pytest.mark.parametrize("form", ["python", "binary", "png"])
def test_what_the_user_has_is_taken_with_a_warning_if_it_is_unusual(
    tmp_path: Path, form: str
) -> None:
    images, _ = cifar(tmp_path / "mine", form)
    got = get("cifar10", tmp_path / "cifar", tmp_path / "mine", quiet)
    assert "6 train images, where 50000 are usual" in got.warnings
    assert "the training images differ from the published ones" in got.warnings
    assert (open_source(str(got.path), "train").images == images).all()  # type: ignore[union-attr]


def test_another_set_is_refused(tmp_path: Path) -> None:
    mnist(tmp_path / "mine")
    with pytest.raises(BadData, match="is not cifar10"):
        get("cifar10", tmp_path / "cifar", tmp_path / "mine", quiet)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(UsageError, match="exists already and does not hold mnist"):
        get("mnist", tmp_path / "taken", tmp_path / "mine", quiet)
    with pytest.raises(UnknownName, match="Did you mean 'cifar10'"):
        get("cifar-10", tmp_path / "x", None, quiet)
