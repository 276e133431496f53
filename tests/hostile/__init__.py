"""Pods, requests and kills that mean harm: short forms in the tests, long runs by one command each.

    python -m tests.hostile            escapes, as root and as an ordinary user; leaks, 2,000 pods
    python -m tests.hostile.crash      kills of any part of a cluster under load
    python -m tests.hostile.fuzz       requests

Each prints a line of figures and ends with an exit status other than 0 at the first violation.
"""
