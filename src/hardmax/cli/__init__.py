"""The command line: `main` assembles, one file a command."""
