"""From samples and jobs to speedups with intervals, their causes, and the law that predicts them."""
