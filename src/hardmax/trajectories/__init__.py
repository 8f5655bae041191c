"""Results of a run: their classes, their status sentences and their files."""
