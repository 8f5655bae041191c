"""The command line: `main` assembles, one file a command, figures and the demo in one."""
