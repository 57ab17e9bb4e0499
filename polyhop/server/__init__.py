"""Pages, HTTP API, chat endpoint and agent tools over one root."""
