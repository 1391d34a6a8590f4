"""What is measured: the study file, its cells and jobs with their order, and the machine that it is for."""
