"""`python -m ballast_cfr`."""

import sys

from ballast_cfr.cli.main import main

sys.exit(main())
