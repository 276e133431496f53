"""The controller kit: what every controller shares, in the operator and in the embedded cluster.

    SharedInformers ─(watch: key functions)─► WorkQueue ─► OwnWrites: wait? ─► Controller.reconcile(key)
                                                 ▲                                   │
                                                 └──── requeue, backoff ◄────────────┘

`informers`   one mirror per resource and selector, however many controllers read it
`workqueue`   keys to reconcile: each once, never in two hands
`controller`  the loop around `reconcile`, and the wiring from watched objects to keys
`ownwrites`   a key waits until its mirrors show what was last written for it
`batches`     many similar writes: slow start, or all of them
"""
