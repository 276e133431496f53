"""The Kubernetes protocol without sockets, shared by the API server and its clients.

    meta     what every object and name has: resources, selectors, quantities, times, errors
    wire     what crosses the connection: bodies, content types, watch frames
    schema   OpenAPI schemas, decoding, structural validation, CEL
    patch    JSON, merge and strategic merge patch, server-side apply
    builtin  the built-in kinds: defaults, validation, columns
    served   what a server says about its resources: registry, discovery, OpenAPI, tables

Everything here is a plain function of its arguments, but for two data files that are read once and the CEL
engine, which is loaded when a rule has to run. Must not hold clocks, sockets or event loops.
"""
