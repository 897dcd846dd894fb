"""Types of core/v1 that users write in a `template`. They are passed on as they are, so in Python they are plain dicts.

The API server checks them by its own schema of the same type (`schema/core.json`), so a typo in a toleration is
refused when it is written, not when the pod is made.
"""

from typing import Annotated, Any

from ballast_api.base import Core

Affinity = Annotated[dict[str, Any], Core("Affinity")]
EnvVar = Annotated[dict[str, Any], Core("EnvVar")]
ImagePullSecret = Annotated[dict[str, Any], Core("LocalObjectReference")]
PodResourceClaim = Annotated[dict[str, Any], Core("PodResourceClaim")]
PodSecurityContext = Annotated[dict[str, Any], Core("PodSecurityContext")]
ResourceRequirements = Annotated[dict[str, Any], Core("ResourceRequirements")]
Toleration = Annotated[dict[str, Any], Core("Toleration")]
Volume = Annotated[dict[str, Any], Core("Volume")]
VolumeMount = Annotated[dict[str, Any], Core("VolumeMount")]
