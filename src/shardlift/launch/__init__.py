"""Running a program in one process, or in many local ones under one coordinator."""
