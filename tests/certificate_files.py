"""Certificates of an authority as the files of a host, and the settings that name them."""

from __future__ import annotations

from pathlib import Path

import trustme

from sqlstream.runtime.net.endpoint import TlsFiles

TLS = "security.ssl.internal."


def certificates(directory: Path, authority: trustme.CA, *names: str) -> TlsFiles:
    directory.mkdir(exist_ok=True)
    certificate = authority.issue_cert(*names)
    paths = [str(directory / name) for name in ("cert.pem", "key.pem", "ca.pem")]
    certificate.cert_chain_pems[0].write_to_path(paths[0])
    certificate.private_key_pem.write_to_path(paths[1])
    authority.cert_pem.write_to_path(paths[2])
    return TlsFiles(*paths)


def settings(files: TlsFiles, **more: str) -> dict[str, str]:
    return {
        f"{TLS}enabled": "true",
        f"{TLS}certificate-file": files.certificate,
        f"{TLS}key-file": files.key,
        f"{TLS}ca-file": files.authority,
        **more,
    }
