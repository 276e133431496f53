"""What deciding about a job needs whatever its kind: the plan, conditions, events, limits, cleanup, suspension, status."""
