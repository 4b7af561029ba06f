"""Yours: replace these. The demo agent, its tools, and the chat model that the settings name."""
