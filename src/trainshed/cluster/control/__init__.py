"""The control plane as a process: its parts and their order, and starting, finding and stopping it."""
