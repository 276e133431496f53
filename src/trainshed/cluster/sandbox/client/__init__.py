"""The control plane's side of the sandbox runtime: asyncio, one connection per daemon and shim."""
