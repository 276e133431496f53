"""Programs that tests run in sandboxes."""

from __future__ import annotations

SERVER = """
import socket, sys
listener = socket.create_server(("0.0.0.0", 23456))
print("up", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(sys.argv[1].encode())
    connection.close()
"""


CLIENT = """
import socket, sys
print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(99).decode())
"""
