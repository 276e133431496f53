"""The controller kit: shared informers, work queue, the loop around a reconciler, own writes, slow start."""
