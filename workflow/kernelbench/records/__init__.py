"""From the records of jobs to the tables of samples and jobs, and back; which data is refused."""
