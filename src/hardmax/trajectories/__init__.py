"""Results of a run: what they hold, what they say, how they are made and how they are kept in files."""
