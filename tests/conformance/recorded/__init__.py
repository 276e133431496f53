"""Answers of a real kube-apiserver, recorded once, and the same requests to the embedded server."""
