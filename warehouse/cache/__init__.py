"""What was expensive to compute, kept by the hash of all that determined it."""
