"""Steps and what their code does to names → who loads what from whom."""
