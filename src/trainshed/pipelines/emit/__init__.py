"""A checked pipeline → the objects that run it. Each emitter is a function of the pipeline and of `Options`."""
