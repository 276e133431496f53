"""Layers of images on disk: unpacking, reading and deleting them in a process that can do no harm.

Standard library only. The parent, of whatever package, speaks to it by its arguments, a pipe, and one line of JSON.
"""
