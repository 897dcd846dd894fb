"""`python -m ballast_vamp`."""

import sys

from ballast_vamp.cli import main

sys.exit(main())
