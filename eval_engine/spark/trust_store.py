"""The certificates this machine trusts, as a Java key store: a Java from PyPI brings its own list, which knows no company's proxy.

Format JKS, version 2, of trusted certificates only (big-endian; strings are 2 bytes of length and UTF-8):

    feedfeed 00000002 count { 00000002 alias, milliseconds, "X.509", 4 bytes of length, DER }* SHA1(password as UTF-16, "Mighty Aphrodite", all before)

keytool, which could do this, takes one certificate a call: minutes for a whole list.
"""

import hashlib
import re
import ssl
import struct
from pathlib import Path

PASSWORD = "changeit"  # Java's own; the content is public
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def machine_certificates() -> list[bytes]:
    """What Python trusts here (SSL_CERT_FILE, else the system's file), DER; empty if there is no such file."""
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
