"""The HorizontalPodAutoscaler: what pods use (`metrics`), how fast their number may change (`limits`), what to do."""
