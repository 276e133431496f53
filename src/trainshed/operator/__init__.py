from trainshed._packages import leave_init

leave_init("prometheus_client")  # its HTTP server: what it serves is written by ours
