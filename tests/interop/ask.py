"""Asks a judge that runs already about the card on standard input: `ask.py SOCKET KEYS`.

Exits with 0 if the judge accepts the card, with 1 if it does not, and with 3 without an answer.
`attack_table.py` has `cardsign conformance` start this once for each case, since an SDK takes a
second to import.
"""

import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendall(sys.argv[2].encode() + b"\n" + sys.stdin.buffer.read())
    connection.shutdown(socket.SHUT_WR)
    answer = connection.recv(1)
sys.exit(answer[0] if answer else 3)
