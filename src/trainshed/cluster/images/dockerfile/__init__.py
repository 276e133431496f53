"""Dockerfiles: text → instructions → stages → steps. Pure; what a step does is done by `images.building`."""
