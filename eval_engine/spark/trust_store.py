"""The certificates that this machine trusts, as a Java key store.

A Java from PyPI has its own list of certificates, which lacks those of a company's proxy.

Format JKS, version 2, with trusted certificates only (big-endian; a string is 2 bytes of length, then UTF-8):

    feedfeed 00000002 count { 00000002 alias, milliseconds, "X.509", 4 bytes of length, DER }*
    SHA1(password as UTF-16, "Mighty Aphrodite", all bytes before)

keytool could write it too, but takes one certificate per call, which is minutes for a whole list.
"""

import hashlib
import re
import ssl
import struct
from pathlib import Path

PASSWORD = "changeit"  # Java's own; the content is public
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def machine_certificates() -> list[bytes]:
    """The certificates that Python trusts (SSL_CERT_FILE, else the system's file), as DER; empty without a file."""
    file = ssl.get_default_verify_paths().cafile
    return (
        [ssl.PEM_cert_to_DER_cert(text) for text in CERTIFICATE.findall(Path(file).read_text(errors="replace"))]
        if file
        else []
    )


def key_store(certificates: list[bytes]) -> bytes:
    """A Java key store of these certificates."""
    entries = [
        struct.pack(">I", 2)
        + _text(f"c{n}")
        + struct.pack(">q", 0)
        + _text("X.509")
        + struct.pack(">I", len(der))
        + der
        for n, der in enumerate(certificates)
    ]
    content = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    return (
        content
        + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content, usedforsecurity=False).digest()
    )


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
