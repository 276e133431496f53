"""The addresses and names of the cluster's network. No other module spells them.

    10.88.0.0/16     pods, an address each; the first is the bridge's: their gateway, with DNS and proxy
    machine          an endpoint on the machine's own network: a pod that is there
    10.96.0.0/16     Services: all of them local to the cluster's namespace. The first is the API's
    cluster.local    names of Services and pods

Addresses are texts, as the kernel and resolvers write them: the daemons do without `ipaddress` (0.3 MB).
"""

from __future__ import annotations

POD_NETWORK = "10.88.0.0/16"
POD_PREFIX_LENGTH = 16
POD_PREFIX = "10.88."
GATEWAY = "10.88.0.1"
MACHINE = "machine"
"""In place of an endpoint's address: the loopback of the machine, for pods with `hostNetwork`. What users write into
EndpointSlices is never this."""
FIRST_POD, LAST_POD = 2, 65534
"""As the numbers of `pod_address`: the network's own address, the gateway and the broadcast address are left out."""
SERVICE_NETWORK = "10.96.0.0/16"
_SERVICE_PREFIX = "10.96."
API_ADDRESS = "10.96.0.1"
API_PORT = 443
DNS_PORT = 53
PROXY_PORT = 3128
PROXY_URL = f"http://{GATEWAY}:{PROXY_PORT}"
DOMAIN = "cluster.local"
_LOCAL_PREFIXES = ("127.", "0.", "169.254.", "fe80:")
_LOCAL = ("::1", "::")
_CREDENTIALS = ("100.100.100.200", "168.63.129.16", "fd00:ec2::254")
"""Where clouds serve credentials besides link-local addresses: Alibaba, Azure, Amazon."""


def pod_address(number: int, prefix: str = POD_PREFIX) -> str:
    """Return the address of that number in the pods' network, which begins with `prefix`."""
    return f"{prefix}{number >> 8}.{number & 255}"


def pod_number(address: str) -> int:
    """Return the inverse of `pod_address`; 0 for what is no address."""
    try:
        _, _, high, low = address.split(".")
        return int(high) << 8 | int(low)
    except ValueError:
        return 0


def is_pod(address: str) -> bool:
    """Return whether the IPv4 address is in the pods' network."""
    return address.startswith(POD_PREFIX)


def is_service(address: str) -> bool:
    """Return whether the IPv4 address is in the Services' network."""
    return address.startswith(_SERVICE_PREFIX)


def is_cluster(address: str) -> bool:
    """Return whether the IPv4 address is in a network of the cluster."""
    return is_pod(address) or is_service(address)


def is_local(address: str) -> bool:
    """Return whether the address, in lower case, is a machine's loopback, unspecified, or link-local, or another at
    which clouds serve credentials."""
    return address.startswith(_LOCAL_PREFIXES) or address in _LOCAL or address in _CREDENTIALS
