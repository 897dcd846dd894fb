{{/*
What the operator does in the namespaces that it watches, and nothing else. The right to patch ConfigMaps is also what
lets it give a solve's pod that right on the one ConfigMap of its result.
*/}}
{{- define "ballast.rules" -}}
- apiGroups: [ballast.dev]
  resources: [cfrsolves]
  verbs: [list, watch, delete] # delete: ttlSecondsAfterFinished
- apiGroups: [ballast.dev]
  resources: [cfrsolves/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete] # delete: suspend
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims, serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch] # list: why a Job makes no pod
{{- end }}
