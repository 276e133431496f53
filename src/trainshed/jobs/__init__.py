"""What a training job should look like: `decide(observed) -> Plan`; one policy per file.

Everything here is a plain function of its arguments: no I/O, no clock, no randomness. Time is
`Observed.now`; names of children follow from the name of the job.
"""
