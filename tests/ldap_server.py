"""Debian's slapd with a few users and groups, on a port of loopback, with StartTLS."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import trustme
from command_harness import free_port

BASE = "dc=example,dc=org"
CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/slapd.pid
TLSCACertificateFile {directory}/ca.pem
TLSCertificateFile {directory}/cert.pem
TLSCertificateKeyFile {directory}/key.pem
database mdb
maxsize 16777216
suffix "{base}"
rootdn "cn=root,{base}"
rootpw rootsecret
directory {directory}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,{base}" read by anonymous auth by * none
"""
ENTRIES = """\
dn: {base}
objectClass: dcObject
objectClass: organization
dc: example
o: example

dn: ou=people,{base}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{base}
objectClass: organizationalUnit
ou: groups

dn: cn=reader,{base}
objectClass: person
cn: reader
sn: reader
userPassword: readersecret

dn: uid=bob,ou=people,{base}
objectClass: inetOrgPerson
uid: bob
cn: Bob (the builder) *
sn: b
userPassword: bobsecret

dn: uid=eve,ou=people,{base}
objectClass: inetOrgPerson
uid: eve
cn: Eve
sn: e
userPassword: evesecret

dn: cn=engineers,ou=groups,{base}
objectClass: groupOfNames
cn: engineers
member: uid=bob,ou=people,{base}

dn: cn=guests,ou=groups,{base}
objectClass: groupOfNames
cn: guests
member: uid=bob,ou=people,{base}
member: uid=eve,ou=people,{base}
"""


def is_installed() -> bool:
    return shutil.which("slapd", path="/usr/sbin:/usr/local/sbin:/usr/bin") is not None


class LdapServer:
    """Runs from `with` to its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ca_file = directory / "ca.pem"
        self.port = free_port()
        self.url = f"ldap://localhost:{self.port}"

    def __enter__(self) -> LdapServer:
        place = self._directory
        (place / "data").mkdir(parents=True)
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        authority.cert_pem.write_to_path(self.ca_file)
        issued.private_key_pem.write_to_path(place / "key.pem")
        issued.cert_chain_pems[0].write_to_path(place / "cert.pem")
        (place / "slapd.conf").write_text(CONFIG.format(directory=place, base=BASE))
        subprocess.run(
            ["/usr/sbin/slapadd", "-f", str(place / "slapd.conf")],
            input=ENTRIES.format(base=BASE), text=True, check=True, capture_output=True,
        )  # fmt: skip
        words = [
            "/usr/sbin/slapd",
            "-f",
            str(place / "slapd.conf"),
            "-h",
            f"ldap://127.0.0.1:{self.port}",
            "-d",
            "0",
        ]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self._process.poll() is None
                assert time.monotonic() < deadline_s
                time.sleep(0.05)

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
