"""`python -m evo` is the `evo` command."""

import sys

from evo.cli import main

sys.exit(main())
