"""What a user would trip over, foreseen from the manifests and what is known of the cluster.

    objects ─┐
             ├─► foresee ──► findings: what, where, how to mend it
    World  ──┘

Pure but for `gather`, which reads the World. One file is one family of rules; a rule says nothing about what the
World does not know. What the API server itself refuses is not repeated here.
"""
