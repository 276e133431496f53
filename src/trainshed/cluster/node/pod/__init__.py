"""The life of one pod on a node. `worker` goes round:

    record      what is known, changed as events arrive (sandbox, containers, probes); the runtime's word wins
    observed    the types of a frozen copy of it: `seen = record.seen()`, a `SeenPod`
    decide      `decide(observed)`: what to do next (`lifecycle`) and what the API is told of it (`status`);
                `starter` and `containers` do the one, `statuswriter` the other

What a container is given comes from `environment`, `sandboxspec` and, beside this package, `volumes`.
"""
