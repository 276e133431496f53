"""Findings about pipelines that compile but will not do what their code seems to say."""
