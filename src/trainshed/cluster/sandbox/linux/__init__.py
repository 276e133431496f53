"""What sandboxes need of the kernel: namespaces, mounts, credentials, netlink. Standard library only."""
