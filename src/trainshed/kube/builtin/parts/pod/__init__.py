"""The parts of a pod, live or in a template: its defaults, its rules, its table."""
