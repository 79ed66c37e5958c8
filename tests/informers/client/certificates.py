"""Temporary certificates, created with the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """A CA and the files that it signed, in one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str) -> tuple[Path, Path]:
        """Create a certificate and key for 127.0.0.1, for servers and clients."""
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(
            "subjectAltName=IP:127.0.0.1,DNS:named.example\n"
            "basicConstraints=critical,CA:FALSE\n"
            "authorityKeyIdentifier=keyid\n"
            "subjectKeyIdentifier=hash\n"
        )
        openssl(
            "req", "-newkey", "ec", *_CURVE, "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}"
        )
        signer = ("-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signer, "-out", certificate, "-extfile", extensions)
        return certificate, key

    def server(self, *, demand_client_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        context.load_cert_chain(*self.issue("server"))
        if demand_client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


_CURVE = ("-pkeyopt", "ec_paramgen_curve:P-256")


def make_authority(folder: Path) -> Authority:
    folder.mkdir()
    authority = Authority(folder)
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    files = ("-keyout", folder / "ca.key", "-out", authority.ca)
    openssl("req", "-x509", "-newkey", "ec", *_CURVE, "-nodes", *files, "-subj", f"/CN={folder.name}", *usage)
    return authority


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
