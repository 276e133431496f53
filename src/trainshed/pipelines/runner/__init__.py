"""What runs inside a step's pod: `python -m trainshed.pipelines.runner`.

It reads a program (made by `pipelines.ir.program`), starts a Jupyter kernel, runs the imports and functions, loads the
inputs, runs the step's own code, and saves the outputs. Unlike the rest of `pipelines` it reads files, the clock and
the environment; nothing else imports it.

    program    what to do, as it is handed over
    values     how an object becomes a file, by its type
    pickling   functions, classes and everything else, bound to the names of the kernel that loads them
    store      the files of a step with their manifest, complete or not there at all
    inside     the part that runs in the kernel
    kernel     a Jupyter kernel as a fork of the runner
    execution  the kernel, seen from outside: block by block, up to the first error
    turn       waits for a file to be filled
    outputs    what it puts out: shown as it comes, and kept
    report     the HTML page
    rendezvous workers that run as tasks of their own find one another
"""
