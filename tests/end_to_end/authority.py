"""A CA of certificates that clients show."""
import subprocess
import time

CA_CONFIG = """[ca]
default_ca = own
[own]
new_certs_dir = .
database = index.txt
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = optional
"""


class Authority:
    """A CA of clients in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "ca.crt"
        folder.mkdir()
        (folder / "ca.cnf").write_text(CA_CONFIG)
        (folder / "index.txt").write_text("")
        self.make_key("ca")
        self.openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=clients", "-days", "20",
                     "-out", "ca.crt")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def make_key(self, name):
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    def issue(self, file, subject, days=10, usage="clientAuth"):
        """The settings that name a new certificate. days: how many, the last begun; whole days would be one
        more to who looks within the same second."""
        start, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * day))
                      for day in (-30, days - .5))
        (self.folder / "extensions").write_text(f"extendedKeyUsage={usage}\n")
        self.make_key(file)
        self.openssl("req", "-new", "-key", f"{file}.key", "-subj", subject, "-out", f"{file}.csr")
        self.openssl("ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", "ca.crt", "-keyfile", "ca.key",
                     "-in", f"{file}.csr", "-startdate", start, "-enddate", end, "-extfile", "extensions",
                     "-out", f"{file}.crt")
        return {"client.certificate": self.folder / f"{file}.crt", "client.key": self.folder / f"{file}.key"}
