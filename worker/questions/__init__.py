"""What is found in a question before anything is retrieved for it."""
