"""What crosses the connection: bodies, content types, watch frames, protobuf, the `scale` subresource."""
