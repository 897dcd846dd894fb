"""The package comes before its parts. Pytest, given a test of `compile/` first, would import that folder by itself and
put it over the function of the same name at the package's door.
"""

import ballast_cfr

assert callable(ballast_cfr.compile)
