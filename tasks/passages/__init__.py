"""Records to passages: what every stage that reads texts shares."""
