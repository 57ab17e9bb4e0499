"""The stages: pure modules and one thin shell each."""
