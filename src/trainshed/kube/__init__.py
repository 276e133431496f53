"""The Kubernetes protocol without sockets: paths, selectors, patches, schemas, `Status`, tables.

Everything here is a plain function of its arguments; the API server and the client share it.
Must not hold I/O, clocks or event loops.
"""
