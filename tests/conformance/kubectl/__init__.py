"""What kubectl prints of a real kube-apiserver, recorded once, and of the embedded one."""
