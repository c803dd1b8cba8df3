"""Servers of files on this machine: one that speaks S3, and a small one that does wrong on demand."""

import base64
import contextlib
import hashlib
import hmac
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from moto.server import ThreadedMotoServer


class S3Server:
    """An S3 server in memory. What it says is also what Google's servers say to who asks them in XML, as GT does."""

    def __init__(self):
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.uploaded = set()
        self.url = "http://{}:{}".format(*self.server.get_host_and_port())

    def put(self, path, content=b"", **headers):
        # Without a type of its own the body would be read as a form.
        headers = {"Content-Type": "application/octet-stream", **headers}
        request = urllib.request.Request(self.url + path, data=content, method="PUT", headers=headers)
        urllib.request.urlopen(request, timeout=10).close()

    def upload(self, folder, bucket, **headers):
        """Puts every file below a folder into a bucket, once: nobody in particular may not write over an object."""
        for file in sorted(Path(folder).rglob("*")):
            path = f"/{bucket}/{file.relative_to(folder)}"
            if file.is_file() and path not in self.uploaded:
                self.uploaded.add(path)
                self.put(path, file.read_bytes(), **headers)

    def stop(self):
        self.server.stop()


class AzureServer:
    """Azurite, Microsoft's own server for tests, as a process: `npm install azurite` puts the command there."""

    COMMAND = "azurite-blob"
    ACCOUNT = "devstoreaccount1"
    # The same everywhere, and no secret.
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [self.COMMAND, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(folder)]
        self.process = subprocess.Popen([*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)])
        self.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        self.stop()
        raise TimeoutError(f"{self.COMMAND} does not answer")

    def put(self, path, content=b"", query="", **headers):
        """A request that is signed as Azure wants it."""
        headers |= {"x-ms-version": "2021-08-06", "x-ms-date": formatdate(usegmt=True)}
        kind, length = "application/octet-stream", len(content) or ""
        said = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        asked = "".join("\n" + part.replace("=", ":") for part in query.split("&") if part)
        resource = f"/{self.ACCOUNT}/{self.ACCOUNT}{path}{asked}"
        text = f"PUT\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{said}{resource}"
        digest = hmac.new(base64.b64decode(self.KEY), text.encode(), hashlib.sha256).digest()
        headers |= {
            "Content-Type": kind,
            "Authorization": f"SharedKey {self.ACCOUNT}:{base64.b64encode(digest).decode()}",
        }
        url = f"{self.url}/{self.ACCOUNT}{path}?{query}"
        urllib.request.urlopen(
            urllib.request.Request(url, data=content, method="PUT", headers=headers), timeout=10
        ).close()

    def upload(self, folder, container):
        self.put(f"/{container}", query="restype=container")
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                content = file.read_bytes()
                self.put(f"/{container}/{file.relative_to(folder)}", content, **{"x-ms-blob-type": "BlockBlob"})

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=10)


def tag_of(content):
    return f'"{hashlib.md5(content).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def do_PROPFIND(self):
        """WebDAV: what is there, one folder deep."""
        if not self.server.lists:
            self.say(405)
            return
        entry = (
            "<D:response><D:href>{}</D:href><D:propstat><D:prop><D:getlastmodified>{}</D:getlastmodified>"
            "<D:getcontentlength>{}</D:getcontentlength><D:getetag>{}</D:getetag><D:resourcetype/></D:prop>"
            "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
        modified = formatdate(self.server.written, usegmt=True)
        below = self.path.rstrip("/") + "/"
        found = [
            (path, content) for path, content in self.server.content.items() if path.rpartition("/")[0] + "/" == below
        ]
        entries = [entry.format(path, modified, len(content), tag_of(content)) for path, content in found]
        head = '<?xml version="1.0" encoding="utf-8"?>'
        self.say(207, f'{head}<D:multistatus xmlns:D="DAV:">{"".join(entries)}</D:multistatus>'.encode())

    def answer(self, body):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        wanted = self.headers.get("Range")
        self.server.requests.append((self.command, path, wanted))
        if self.server.fault is not None and self.server.fault(self):
            return
        content = self.server.content.get(path)
        if content is None:
            self.say(404)
            return
        tag = tag_of(content)
        headers = {"Last-Modified": formatdate(self.server.written, usegmt=True), "Accept-Ranges": "bytes"}
        if self.server.tags:
            headers["ETag"] = tag
            if self.headers.get("If-Match", tag) != tag:
                self.say(412)
                return
        status, part = 200, content
        if wanted is not None and self.server.ranges:
            first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())
            if first >= len(content):
                self.say(416)
                return
            status, part = 206, content[first : last + 1]
            headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        self.say(status, part if body else b"", length=len(part), **headers)

    def say(self, status, content=b"", length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)


class FileServer(ThreadingHTTPServer):
    """Files in memory behind HTTP, with parts of them for who asks.

    `fault` may answer a request in place of the server: it gets the handler, and says whether it did.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.requests, self.fault = {}, [], None
        self.tags, self.ranges, self.lists, self.written = True, True, False, 1_700_000_000
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def put(self, folder, below=""):
        """Serves the files of a folder."""
        for file in sorted(Path(folder).iterdir()):
            self.content[f"{below}/{file.name}"] = file.read_bytes()

    def gets(self):
        return [request for request in self.requests if request[0] == "GET"]

    def stop(self):
        self.shutdown()
        self.server_close()
        self.thread.join()
