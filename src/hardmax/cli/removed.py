"""Commands and options that were removed, each with what replaces it in this release."""

REMOVED = {  # "command" or "command --option" to the sentence that is printed
    "sweep --NAME": "Write parameters of a cell as --set NAME=VALUES.",
}
