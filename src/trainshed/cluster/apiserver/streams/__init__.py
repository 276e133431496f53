"""Streams over WebSocket and SPDY, into pods and of watches: nothing of it is imported before somebody asks for one."""
