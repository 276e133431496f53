"""The network that pods share: addresses, DNS, the proxy and a route out. Standard library only."""
