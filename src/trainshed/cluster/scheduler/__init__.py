"""The scheduler: which node a pod goes to, and why a Pending pod waits. The words are those of kube-scheduler.

    activequeue   whose turn it is
    snapshot      what decides over places; `scheduledpods` and `ledger` are kept up to date pod by pod
    feasibility   filters: `predicates` of the node, `interpodaffinity` and `topologyspread` by the pods that are there
    scores        which of several nodes is the better one
    preemption    who gives way
    placement     all of it for one pod, and what is said; `gangs` for pods that go together

All of these are pure; `scheduler` watches pods and decides, `binding` binds them and has others give way.
"""
