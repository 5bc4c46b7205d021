"""What ``scripts/mutate`` gives cosmic-ray: a configuration for each package that decides what is
deleted, and `operators` of our own."""
