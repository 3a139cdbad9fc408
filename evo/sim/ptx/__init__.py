"""PTX text to a syntax tree: lexer, parser, statements (PTX ISA 8.x, chapter 4)."""
