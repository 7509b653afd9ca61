"""How the events of the page are wired: none is public, none draws over the page, and what needs no model does not wait for it."""

PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
CHEAP = {**PRIVATE, "queue": False}  # answered at once, while a run is going on
