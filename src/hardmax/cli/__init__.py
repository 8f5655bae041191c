"""The command line: `main` registers the commands, which other modules define."""
