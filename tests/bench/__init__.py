"""What `make bench` measures: the engine against transformers, the cost of recording, the page. Recorded, never a test."""
