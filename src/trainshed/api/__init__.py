"""The kinds we own, each declared once: fields, defaults, validation, CRD.

Imports nothing of ours. Must not hold anything that talks to a server or knows a wire protocol.
"""
