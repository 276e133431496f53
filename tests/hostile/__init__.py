"""Pods, requests and kills that mean harm."""
