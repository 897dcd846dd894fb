"""`python -m ballast_serving`."""

import sys

from ballast_serving.cli import main

sys.exit(main())
