"""What a training job should look like: `decide(observed) -> Plan`; one policy per file.

    engine    what every generation of job kinds shares: plan, conditions, events, limits, cleanup, suspend, status
    v1        the kinds of `kubeflow.org/v1`: replicas, restarts, pods, services, one file per framework
    registry  what an operator has to know of each kind, whichever generation decides about it

Everything here is a plain function of its arguments: no I/O, no clock, no randomness. Time is
`Observed.now`; names of children follow from the name of the job.
"""
