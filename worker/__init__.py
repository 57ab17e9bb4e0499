"""Questions in, answers out: strategies, ranking functions, reading."""
