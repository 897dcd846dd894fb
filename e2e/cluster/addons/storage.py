"""local-path-provisioner: a volume for each claim, as a folder on the node where its first pod runs."""

from __future__ import annotations

import json

from e2e.cluster import static_images
from e2e.cluster.addons import (
    Addon,
    Object,
    account,
    as_account,
    bind,
    cluster_role,
    config_map,
    deployed,
    deployment,
    metadata,
)
from e2e.cluster.layout import Layout
from e2e.cluster.versions import LOCAL_PATH

NAME = "local-path-provisioner"
FOLDER = "/var/lib/kubelet/local-path"  # on the node's own disk, so that volumes outlive a reboot

# The mode lets any user of a pod write: the folder is the pod's alone.
SETUP = '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n'
TEARDOWN = '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n'


def objects(_layout: Layout) -> list[Object]:
    paths = {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [FOLDER]}]}
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [
                {"name": "helper-pod", "image": static_images.TOOLBOX_IMAGE, "imagePullPolicy": "IfNotPresent"}
            ],
        },
    }
    config = {
        "config.json": json.dumps(paths),
        "setup": SETUP,
        "teardown": TEARDOWN,
        "helperPod.yaml": json.dumps(helper),
    }
    args = [
        "start",
        "--config=/etc/config/config.json",
        f"--configmap-name={NAME}",
        f"--service-account-name={NAME}",
    ]
    namespace = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    container: Object = {
        "env": [namespace, {"name": "CONFIG_MOUNT_PATH", "value": "/etc/config/"}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
    }
    volumes: list[Object] = [{"name": "config", "configMap": {"name": NAME}}]
    return [
        account(NAME),
        cluster_role(
            NAME,
            ("", "nodes persistentvolumeclaims configmaps pods/log", "get list watch"),
            ("", "pods persistentvolumes", "get list watch create patch update delete"),
            ("", "events", "create patch"),
            ("storage.k8s.io", "storageclasses", "get list watch"),
        ),
        bind(NAME, NAME, as_account(NAME)),
        config_map(NAME, config),
        deployment(NAME, static_images.name(LOCAL_PATH), args, container, volumes),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                **metadata("local-path", ""),
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]


ADDON = Addon("local-path", LOCAL_PATH, objects, deployed(NAME))
