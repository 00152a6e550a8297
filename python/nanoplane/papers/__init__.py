"""One module a paper: its figures and its claims."""
