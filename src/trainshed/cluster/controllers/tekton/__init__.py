"""Tekton's controllers of the embedded cluster: the loops around `trainshed.tekton`, and what runs in each step."""
