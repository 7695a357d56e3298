"""Writes down what Helm asks of a server: one request a line, as JSON.

    python3 record.py HELM KUBECONFIG CHART > requests.jsonl

stands between Helm and the server of the kubeconfig (which has certificates in it; that of a
kube-apiserver for what is kept here, and what a tenant's server makes of it is the same),
has Helm install, upgrade, roll back and uninstall the chart, with patches made by Helm and
with server-side apply, and keeps what changes something together with the answer's code.
Where nothing runs pods nothing completes the Jobs of hooks either: that is done here too.
"""

import base64
import http.client
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

HELM, KUBECONFIG, CHART = sys.argv[1:]

FIRST = ["--set", "owner=harbourmaster"]
SECOND = ["--set", "owner=harbourmaster,image=harbour:2.0,replicas=3,greeting=welcome,metrics=false"]
COMPLETE = {
    "status": {
        "succeeded": 1,
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:01Z",
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    }
}

with tempfile.TemporaryDirectory() as folder:
    view = ["kubectl", "config", "view", "--raw", "-o", "json", "--kubeconfig", KUBECONFIG]
    kubeconfig = json.loads(subprocess.check_output(view))
    user = kubeconfig["users"][0]["user"]
    cluster = kubeconfig["clusters"][0]["cluster"]
    files = {}
    for name, text in (
        ("crt", user["client-certificate-data"]),
        ("key", user["client-key-data"]),
        ("ca", cluster["certificate-authority-data"]),
    ):
        files[name] = os.path.join(folder, name)
        with open(files[name], "wb") as file:
            file.write(base64.b64decode(text))
    tls = ssl.create_default_context(cafile=files["ca"])
    tls.load_cert_chain(files["crt"], files["key"])
    address = urllib.parse.urlsplit(cluster["server"]).netloc
    lock, step = threading.Lock(), ["start"]

    def ask(method, path, body, headers):
        connection = http.client.HTTPSConnection(address, context=tls)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def write_down(method, path, content_type, body, code):
        request = {"step": step[0], "method": method, "path": path, "code": code}
        if body:
            request["type"] = content_type
            # It keeps its releases by protobuf, and all else by JSON.
            if content_type.endswith("protobuf"):
                request["bytes"] = base64.b64encode(body).decode()
            else:
                request["body"] = json.loads(body)
        with lock:
            print(json.dumps(request), flush=True)

    class Between(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            headers = {
                name: self.headers[name]
                for name in ("Accept", "Content-Type", "User-Agent")
                if self.headers[name]
            }
            answer = ask(self.command, self.path, body, headers)
            if self.command != "GET":
                write_down(
                    self.command, self.path, headers.get("Content-Type"), body, answer.status
                )
            path = self.path.split("?")[0]
            if answer.status == 201 and "/jobs" in path:
                name = json.loads(body)["metadata"]["name"]
                path = path.removesuffix(f"/{name}") + f"/{name}/status"
                done = json.dumps(COMPLETE).encode()
                merge = {"Content-Type": "application/merge-patch+json"}
                completed = ask("PATCH", path, done, merge)
                write_down("PATCH", path, merge["Content-Type"], done, completed.status)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() in ("content-type", "warning"):
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while piece := answer.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain = os.path.join(folder, "kubeconfig")
    with open(plain, "w") as file:
        json.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [
                    {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
                ],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            },
            file,
        )
    environment = {**os.environ, "KUBECONFIG": plain, "HOME": folder}
    for side in ("false", "true"):
        for name, *words in (
            ("install", "harbour", CHART, *FIRST),
            ("upgrade", "harbour", CHART, *SECOND),
            ("rollback", "harbour", "1"),
            ("uninstall", "harbour"),
        ):
            step[0] = f"{name} {'server-side' if side == 'true' else 'client-side'}"
            how = [] if name == "uninstall" else [f"--server-side={side}"]
            line = [HELM, name, *words, *how, "--timeout", "60s"]
            subprocess.run(line, env=environment, check=True, stdout=sys.stderr)
