"""Small models of the outside world for tests in process."""
