"""Names that several processes must spell alike, and nobody else may use."""

import hashlib

DRIVER = "cxl.ballast.dev"
RAW_CLASS = "cxl.ballast.dev"  # private memory of one pod
REGION_CLASS = "region.cxl.ballast.dev"  # regions that somebody made
FINALIZER = "ballast.dev/region"  # on CXLRegion: its blocks are not free yet
FABRIC_FINALIZER = "ballast.dev/fabric"  # on CXLAttachment: the appliance may still connect the node
NODE_FINALIZER = "ballast.dev/node"  # on CXLAttachment: the node may still use the device
CLAIM_UID = "ballast.dev/claim-uid"  # label of a region that was made for a claim
CLAIM_REQUEST = "ballast.dev/claim-request"  # label beside it: which request of the claim
DRIVERS_NAMESPACE = "ballast-drivers"
GRANTS = "ballast-cxl-grants"  # ConfigMap that the admission policy looks grants up in


def attachment_name(uid: str, node: str) -> str:
    """Name of the CXLAttachment of a region on a node; one node can so ask only once."""
    return f"{uid}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def lease_name(node: str) -> str:
    """Lease that a node's plugin renews."""
    return f"ballast-cxl-{node}"


def region_device(uid: str) -> str:
    """Name of a region's device; unique among those of one blade."""
    return f"region-{uid.replace('-', '')[:16]}"
