"""What can be added to Polyhop from outside, one file each."""
