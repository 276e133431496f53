"""Pods as plain processes, where the kernel gives no namespaces: the daemons and shims of `--isolation plain`."""
