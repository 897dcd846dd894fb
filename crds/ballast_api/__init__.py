"""The Ballast API: the kinds that users apply, as models. Nothing else in the project defines a field.

Types, defaults, bounds, rules, printer columns and documentation all stand here, once; the generator turns them into
CustomResourceDefinitions (`crds/*.yaml`), and the operator parses objects with the same classes.
Start with `cfrsolve.py` to see a whole kind, then `base.py` for what `field` and `Rule` mean.
"""

GROUP = "ballast.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
