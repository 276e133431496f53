"""What deciding about a job needs whatever its kind: plan, conditions, events, limits, cleanup, suspension, status."""
