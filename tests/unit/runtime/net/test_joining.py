"""Who may join a cluster: the token, the names in certificates, and what is told to whom."""

from __future__ import annotations

import datetime
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from command_harness import environment
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from sqlstream import __version__
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.messages.rpc import PROTOCOL_VERSION
from sqlstream.runtime.net.authority import Authority, new_request
from sqlstream.runtime.net.joining import (
    Admission,
    Door,
    JoinRequest,
    JoinToken,
    Refusal,
    addresses_of,
    ask_to_join,
)

SECRET = "s" * 43


def door(directory: Path, **more: bool) -> Door:
    known = {"worker": frozenset({"10.0.0.2"})}
    return Door(
        Authority(str(directory)),
        lambda: SECRET,
        "word",
        "grpc+tls://head:6123",
        lambda h: known.get(h, frozenset()),
        **more,
    )


def body(host: str = "", secret: str = SECRET, request: bytes | None = None) -> bytes:
    asked = new_request("x").signing_request if request is None else request
    return msgspec.json.encode(JoinRequest(secret, asked.decode(), host))


def admission(found: tuple[int, Admission | Refusal]) -> Admission:
    assert found[0] == 200, found
    assert isinstance(found[1], Admission)
    return found[1]


def refusal(found: tuple[int, Admission | Refusal]) -> tuple[int, str]:
    assert isinstance(found[1], Refusal), found
    return found[0], found[1].code


def names(certificate: str) -> list[str]:
    read = x509.load_pem_x509_certificate(certificate.encode())
    value = read.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(value, x509.SubjectAlternativeName)
    return [str(name.value) for name in value]


def test_a_host_gets_a_certificate_for_itself_alone(tmp_path: Path) -> None:
    at = door(tmp_path)
    by_address = admission(at.answer(body(), "10.0.0.9"))
    assert (by_address.host, names(by_address.certificate)) == ("10.0.0.9", ["10.0.0.9"])
    by_name = admission(at.answer(body("worker"), "::ffff:10.0.0.2"))
    assert (by_name.host, names(by_name.certificate)) == ("worker", ["worker"])
    assert (by_name.job_manager, by_name.token) == ("grpc+tls://head:6123", "word")
    for host in ("worker", "head", "nobody", "x" * 400):
        assert refusal(at.answer(body(host), "10.0.0.9")) == (403, "SS4082")
    authority = x509.load_pem_x509_certificate(by_name.authority.encode())
    signed = x509.load_pem_x509_certificate(by_name.certificate.encode())
    signed.verify_directly_issued_by(authority)
    life = signed.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=89) < life < datetime.timedelta(days=91)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (body(secret="t" * 43), (403, "SS4080")),
        (body(secret=""), (403, "SS4080")),
        (b"", (400, "SS4081")),
        (b'{"secret": 1}', (400, "SS4081")),
        (body(request=b"no request"), (400, "SS4081")),
        (body(request=b"-" * 20_000), (400, "SS4081")),
    ],
)
def test_whoever_does_not_know_the_secret_or_says_nonsense_is_told_nothing(
    tmp_path: Path, data: bytes, expected: tuple[int, str]
) -> None:
    assert refusal(door(tmp_path).answer(data, "10.0.0.9")) == expected


def test_a_host_of_another_protocol_is_told_what_to_install(tmp_path: Path) -> None:
    request = new_request("x").signing_request.decode()
    asked = JoinRequest(SECRET, request, release="0.9.0", protocol_version=PROTOCOL_VERSION + 1)
    status, answer = door(tmp_path).answer(msgspec.json.encode(asked), "10.0.0.9")
    assert isinstance(answer, Refusal)
    assert (status, answer.code) == (409, "SS6141")
    assert f"this host has sqlstream 0.9.0 (protocol {PROTOCOL_VERSION + 1})" in answer.message
    assert answer.hint == f"install sqlstream {__version__} here, or upgrade the servers first"
    # Another release that speaks alike is let in: hosts are upgraded one after the other.
    alike = JoinRequest(SECRET, request, release="0.9.0", protocol_version=PROTOCOL_VERSION)
    assert admission(door(tmp_path).answer(msgspec.json.encode(alike), "10.0.0.9"))


def test_a_cluster_with_certificates_of_its_own_signs_none(tmp_path: Path) -> None:
    found = admission(door(tmp_path, has_own_certificates=True).answer(body("other"), "10.0.0.9"))
    assert (found.certificate, found.authority, found.token) == ("", "", "word")


def test_the_authority_is_the_same_after_a_restart_and_its_key_is_private(tmp_path: Path) -> None:
    first = Authority(str(tmp_path))
    assert Authority(str(tmp_path)).fingerprint == first.fingerprint
    assert stat.S_IMODE(os.stat(first.key_path).st_mode) == 0o600
    files = first.own_files(["head", "127.0.0.1"])
    assert names(Path(files.certificate).read_text()) == ["head", "127.0.0.1"]
    Path(first.key_path).write_text("no key")
    with pytest.raises(UserError) as refused:
        Authority(str(tmp_path))
    assert refused.value.code == "SS4070"


def test_a_token_is_read_as_it_was_printed() -> None:
    token = JoinToken("a" * 64, SECRET)
    assert JoinToken.parse(f" {token}\n") == token
    for wrong in ("", "a.b", f"{'A' * 64}.{SECRET}", f"{token}x"):
        with pytest.raises(UserError) as refused:
            JoinToken.parse(wrong)
        assert refused.value.code == "SS4080"


def test_nobody_there_is_an_error_that_may_pass() -> None:
    with pytest.raises(ExternalError) as failed:
        ask_to_join("127.0.0.1:1", JoinToken("a" * 64, SECRET), b"", "")
    assert failed.value.code == "SS6076"


@pytest.mark.parametrize(
    ("said", "code", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "SS6166", UserError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SS6076", ExternalError),
    ],
)
def test_a_port_that_speaks_otherwise_is_an_error_that_names_the_port_to_give(
    said: bytes, code: str, kind: type[SqlStreamError]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            for _ in range(2):
                with listener.accept()[0] as opened:
                    opened.sendall(said)
                    opened.recv(1 << 12)

        speaker = threading.Thread(target=speak)
        speaker.start()
        with pytest.raises(kind) as found:
            ask_to_join(f"127.0.0.1:{listener.getsockname()[1]}", JoinToken("a" * 64, SECRET), b"", "")
        speaker.join()
    assert found.value.code == code
    assert "jobmanager.join.port" in (found.value.hint or "")


def test_addresses_of_names() -> None:
    assert addresses_of("127.0.0.1") == {"127.0.0.1"}
    assert addresses_of("no such host.invalid") == frozenset()


def test_two_processes_that_make_an_authority_at_once_have_the_same(tmp_path: Path) -> None:
    script = "import sys; from sqlstream.runtime.net.authority import Authority; print(Authority(sys.argv[1]).fingerprint)"
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        words = [sys.executable, "-P", "-c", script, str(tmp_path / str(number))]
        both = [
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(2)
        ]
        prints = {process.communicate(timeout=60)[0] for process in both}
        assert len(prints) == 1
        assert prints != {""}


def test_a_key_beside_the_certificate_of_another_is_damage(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Authority(str(tmp_path / name))
    (tmp_path / "b" / "authority-key.pem").replace(tmp_path / "a" / "authority-key.pem")
    with pytest.raises(UserError) as refused:
        Authority(str(tmp_path / "a"))
    assert refused.value.code == "SS4070"


def test_names_that_stand_for_many_are_nobodys(tmp_path: Path) -> None:
    at = Door(Authority(str(tmp_path)), lambda: SECRET, "w", "head", lambda host: frozenset({"10.0.0.2"}))
    assert refusal(at.answer(body("*.example.com"), "10.0.0.2")) == (403, "SS4082")


def test_a_name_that_cannot_be_looked_up_now_may_be_asked_for_again(tmp_path: Path) -> None:
    def fails(host: str) -> frozenset[str]:
        raise OSError(socket.EAI_AGAIN, "Temporary failure in name resolution")

    at = Door(Authority(str(tmp_path)), lambda: SECRET, "w", "head", fails)
    assert refusal(at.answer(body("worker"), "10.0.0.2")) == (503, "SS6076")
