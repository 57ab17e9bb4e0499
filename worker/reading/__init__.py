"""From ranked passages to a short answer with its evidence."""
