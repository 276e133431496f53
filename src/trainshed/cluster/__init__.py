"""The embedded cluster: store, API server, scheduler, node, network, storage and controllers."""
