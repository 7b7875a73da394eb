"""Java reads the key store: its keytool lists every certificate with its fingerprint."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eval_engine.spark.trust_store import PASSWORD, key_store, machine_certificates


@pytest.mark.skipif(not shutil.which("keytool"), reason="no keytool on this machine")
def test_keytool_lists_what_was_stored(tmp_path: Path) -> None:
    certificates = machine_certificates()[:5]
    (tmp_path / "trusted.jks").write_bytes(key_store(certificates))
    command = ["keytool", "-list", "-keystore", str(tmp_path / "trusted.jks"), "-storepass", PASSWORD]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    digests = {digest.replace(":", "").lower() for digest in re.findall(r"\(SHA-256\): ([0-9A-F:]+)", listed)}
    assert digests == {hashlib.sha256(der).hexdigest() for der in certificates}
