"""A notebook's pipeline on a cluster: start a run, follow it, say how it ended.

start    compile → objects → create; a finished run of that name is replaced
follow   the run, its TaskRuns and CustomRuns, the logs of all their pods
ended    steps with their times, results, where reports lie, and the failure in the author's words
again    the objects of a run that goes on from a step of an earlier one
"""
