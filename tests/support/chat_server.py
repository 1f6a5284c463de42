"""An OpenAI-compatible chat server of the tests' own, over real HTTP, that misbehaves on request."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(content, tokens=120):
    """The body of a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": tokens - 10, "completion_tokens": 10, "total_tokens": tokens}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


class ChatServer:
    """Answers each request by ``behave(handler, number, request)``; a context manager.

    ``behave`` returns the answer's content, or ``None`` where it has written to the handler itself.
    """

    def __init__(self, behave):
        self.requests = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each body waits 40 ms for the client to acknowledge the headers

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.requests.append(request)
                    number = len(outer.requests)
                    outer._at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer._at_once)
                try:
                    content = behave(self, number, request)
                    if content is not None:
                        send(self, 200, completion(content))
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    with outer._lock:
                        outer._at_once -= 1

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def send(handler, status, body, headers=()):
    """Send a whole JSON answer."""
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def send_half(handler):
    """Promise a whole answer, send half of it and hang up."""
    data = json.dumps(completion('{"score": 0.5}')).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True


def send_white_space(handler, seconds, chunk=1 << 14, pause=0.0):
    """Send white space for a long time, without ever ending the answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Connection", "close")
    handler.end_headers()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        handler.wfile.write(b" " * chunk)
        handler.wfile.flush()
        time.sleep(pause)
    handler.close_connection = True
