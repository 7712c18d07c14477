"""Measurements of permsearch: what its documentation quotes comes from here."""
