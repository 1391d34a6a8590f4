"""Before and between runs: how long a study takes, and how many repeats its intervals need."""
