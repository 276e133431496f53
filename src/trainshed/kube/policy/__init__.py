"""What those who run a cluster decide about the objects of others: Pod Security standards, limits, quotas. Pure."""
