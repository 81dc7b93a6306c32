"""A certificate authority of one's own, and a certificate of it for the loopback host."""

import subprocess
from pathlib import Path

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make(folder: Path):
    """Returns the paths of the authority's certificate, a server's, and the server's key."""
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    certificate, key = folder / "server.pem", folder / "server.key"
    request, names = folder / "server.csr", folder / "names"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", 2, "-subj", "/CN=test authority")
    openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    names.write_text(NAMES)
    signed_by = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", 2, "-extfile", names)
    openssl("x509", "-req", "-in", request, "-out", certificate, *signed_by)
    return ca, certificate, key
