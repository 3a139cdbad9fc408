"""The families of rules: a file each, or a folder if a file would be too long. Modules with a tuple RULES are found."""
