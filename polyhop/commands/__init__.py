"""One file per command: arguments, one call, printing. Heavy imports happen inside the commands."""
