"""What the site does beyond Sphinx."""
