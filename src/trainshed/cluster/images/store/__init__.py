"""The images of this user: blobs by digest, names, and layers unpacked. See docs/decisions/0016-images.md.

Everything here blocks; asynchronous callers use a thread. Nothing here talks to a registry.
"""
