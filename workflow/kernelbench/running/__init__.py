"""How jobs are run: which GPU, which process, what is tried again, and what the terminal shows."""
