"""Strategies compose ranking functions on an open version; they own no formula and open nothing."""
