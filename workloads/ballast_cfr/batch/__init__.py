"""Many solves of one game in one job: a file says what is different in each, and each ends with a result of its own.

`instances` reads the file, `sequence` solves one after another on a CPU, `together` all at once on a GPU, `store` keeps
what is done, so that a job that was interrupted does nothing twice.
"""
