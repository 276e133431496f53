"""What several built-in kinds have: pod specs, templates, claims, the words of tables. Knows no kind."""
