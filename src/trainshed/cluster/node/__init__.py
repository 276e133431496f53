"""The node: pods as Linux sandboxes, each owned by a shim that outlives the control plane."""
