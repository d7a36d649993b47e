"""Stands between a function and one service of the emulator, and can hold or refuse a request.

A request is chosen by bytes that it contains. The functions are given its address by an environment variable of the SDK."""

import http.client
import http.server
import json
import threading


class Proxy:
    """An HTTP proxy in front of `port`. It ends with the `with` block."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._lock = threading.Lock()
        self._rules: list = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                proxy._serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, marker: bytes, forward: bool = False) -> "Rule":
        """Never answers a request that contains `marker`; passes it on first where `forward` is set."""
        return self._add(Rule(marker, "hold", forward))

    def refuse(self, marker: bytes, status: int, code: str) -> "Rule":
        """Answers a request that contains `marker` with an error of the service, unforwarded."""
        rule = Rule(marker, "refuse", False)
        rule.status, rule.code = status, code
        return self._add(rule)

    def refuse_entries(self, marker: bytes, code: str) -> "Rule":
        """Answers a batch for SQS that contains `marker`: every entry is refused with `code`, and it is the sender's fault."""
        rule = Rule(marker, "entries", False)
        rule.code = code
        return self._add(rule)

    def alter(self, marker: bytes, instead: bytes) -> "Rule":
        """Passes requests on with `instead` where `marker` stood; both have one length."""
        rule = Rule(marker, "alter", False)
        rule.instead = instead
        return self._add(rule)

    def heal(self) -> None:
        """Ends every rule; held requests are dropped."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.over.set()

    def _add(self, rule: "Rule") -> "Rule":
        with self._lock:
            self._rules.append(rule)
        return rule

    def _serve(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        with self._lock:
            rule = next((rule for rule in self._rules if rule.marker in body), None)
        if rule is None:
            self._answer(handler, *self._forward(handler, body))
            return
        if rule.forward:
            self._forward(handler, body)
        rule.count += 1
        rule.caught.set()
        if rule.kind == "hold":
            rule.over.wait()
            handler.close_connection = True
            return
        if rule.kind == "alter":
            self._answer(handler, *self._forward(handler, body.replace(rule.marker, rule.instead)))
            return
        if rule.kind == "entries":
            ids = [entry["Id"] for entry in json.loads(body)["Entries"]]
            failed = [{"Id": one, "Code": rule.code, "Message": "refused by the test", "SenderFault": True} for one in ids]
            words = json.dumps({"Successful": [], "Failed": failed}).encode()
            self._answer(handler, 200, [("content-type", "application/x-amz-json-1.0")], words)
            return
        words = json.dumps({"__type": f"com.amazonaws#{rule.code}", "message": "refused by the test"}).encode()
        self._answer(handler, rule.status, [("content-type", "application/x-amz-json-1.0")], words)

    def _forward(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> tuple:
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=60)
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "connection"}
        connection.request(handler.command, handler.path, body=body, headers=headers)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, reply.getheaders(), content

    @staticmethod
    def _answer(handler: http.server.BaseHTTPRequestHandler, status: int, headers: list, content: bytes) -> None:
        try:
            handler.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    handler.send_header(name, value)
            handler.send_header("content-length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        except OSError:
            # The caller gave up, or was killed.
            handler.close_connection = True


class Rule:
    """What happens to requests with `marker`; `caught` is set at the first one."""

    def __init__(self, marker: bytes, kind: str, forward: bool) -> None:
        self.marker = marker
        self.kind = kind
        self.forward = forward
        self.status = 200
        self.code = ""
        self.instead = b""
        self.count = 0
        self.caught = threading.Event()
        self.over = threading.Event()
