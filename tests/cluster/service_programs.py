"""What pods run in the tests of Services: servers and clients, as texts for `python3 -c`."""

SERVER = """
import socket, socketserver, sys, threading
class Tcp(socketserver.BaseRequestHandler):
    def handle(self):
        size = 0
        while data := self.request.recv(1 << 20):
            size += len(data)
        self.request.sendall(f"{sys.argv[1]} {size}".encode())
class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto(sys.argv[1].encode() + b" " + data, self.client_address)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 100
threading.Thread(target=socketserver.UDPServer(("", 5353), Udp).serve_forever, daemon=True).start()
server = Server(("", 8080), Tcp)
print("up", flush=True)
server.serve_forever()
"""

CLIENT = """
import socket, sys
for _ in range(int(sys.argv[3])):
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as sock:
            sock.sendall(bytes(int(sys.argv[4])))
            sock.shutdown(socket.SHUT_WR)
            print(sock.recv(99).decode())
    except OSError as error:
        print(type(error).__name__)
"""

UDP_CLIENT = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(10)
    sock.connect((sys.argv[1], int(sys.argv[2])))
    for word in (b"one", b"two"):
        sock.send(word)
        print(sock.recv(99).decode())
"""

TELLER = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(0.2)
    sock.connect((sys.argv[1], 53))
    while True:
        try:
            sock.send(b"x")
            print(sock.recv(99).decode(), flush=True)
        except OSError:
            pass
        time.sleep(0.05)
"""

THROUGH = """
import socket, sys
with socket.create_connection(("10.88.0.1", 3128), 10) as sock:
    sock.sendall(f"CONNECT {sys.argv[1]}:80 HTTP/1.1\\r\\n\\r\\n".encode())
    print(sock.recv(999).split(b"\\r")[0])
    sock.sendall(b"four")
    sock.shutdown(socket.SHUT_WR)
    print(sock.recv(99))
"""

LASTING = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 80), 10) as sock:
    print("joined", flush=True)
    while sys.stdin.readline():
        sock.sendall(bytes(1000))
    sock.shutdown(socket.SHUT_WR)
    print(sock.recv(99).decode(), flush=True)
"""

CROWD = """
import socket, sys, time
held, refused = [], 0
for _ in range(1100):
    sock = socket.socket()
    try:
        sock.settimeout(20)
        sock.connect((sys.argv[1], 443))
        held.append(sock)
    except ConnectionRefusedError:
        refused += 1
print(len(held), refused, flush=True)
time.sleep(1000)
"""

FLOOD = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    for number in range(5000):
        sock.sendto(b"x", (f"10.96.8.{number % 250}", 1000 + number))
"""

SINK = """
import socket, time
server = socket.create_server(("", 8080), backlog=4000)
print("up", flush=True)
time.sleep(1000)
"""

HOG = """
import socket, sys, time
held = []
for _ in range(1200):
    sock = socket.socket()
    held.append(sock)
    try:
        sock.settimeout(20)
        sock.connect((sys.argv[1], 443))
        sock.setblocking(False)
        sock.send(bytes(50_000))
    except OSError:
        pass  # one too many: reset, maybe before it is known to be there
print(len(held), flush=True)
time.sleep(1000)
"""

SEGMENT = """
import socket, struct
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
    name = struct.pack("=HH", 9, 3) + b"eth0" + bytes(4)
    sock.send(struct.pack("=IHHIIBxHiII", 32 + len(name), 18, 1, 1, 0, 0, 0, 0, 0, 0) + name)
    data = sock.recv(65536)
at = 32
while at + 4 <= len(data):
    length, kind = struct.unpack_from("=HH", data, at)
    if kind == 63:
        print(struct.unpack_from("=I", data, at + 4)[0])
    at += max(4, (length + 3) & ~3)
"""
