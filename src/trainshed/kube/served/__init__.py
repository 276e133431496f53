"""What a server says about the resources that it serves: registry, discovery, OpenAPI, tables."""
