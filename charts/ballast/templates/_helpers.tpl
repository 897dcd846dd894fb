{{/* Name of everything that is the operator's. */}}
{{- define "ballast.operator" -}}
{{ .Release.Name }}-operator
{{- end }}

{{/* Labels by which pods are selected; they can never change. */}}
{{- define "ballast.selector" -}}
app.kubernetes.io/name: ballast-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object of the chart. */}}
{{- define "ballast.labels" -}}
{{ include "ballast.selector" . }}
app.kubernetes.io/part-of: ballast
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/*
Reference of an image: (dict "root" $ "name" .Values.images.x). A first part with a dot or a colon is a host, as for
every container tool; what follows the last slash may have a tag or a digest.
*/}}
{{- define "ballast.image" -}}
{{- $name := .name -}}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" $name) -}}
{{- $name = printf "%s/%s" .root.Values.images.registry $name -}}
{{- end -}}
{{- if not (regexMatch "[@:][^/]*$" $name) -}}
{{- $name = printf "%s:%s" $name .root.Chart.AppVersion -}}
{{- end -}}
{{ $name }}
{{- end }}

{{/* Namespaces that are watched, as a JSON list; empty for all. */}}
{{- define "ballast.namespaces" -}}
{{- if .Values.watchNamespaces -}}
{{ toJson .Values.watchNamespaces }}
{{- else if .Values.namespaced -}}
{{ toJson (list .Release.Namespace) }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/*
Ports of the API server as a network policy sees them, as a JSON list: behind the Service, not on it. Asked of the
cluster when the chart is installed; a namespaced install may not ask, and `helm template` has no cluster.
*/}}
{{- define "ballast.apiServerPorts" -}}
{{- $ports := .Values.networkPolicy.apiServerPorts -}}
{{- if not $ports -}}
{{- $ports = list 443 6443 -}}
{{- if not .Values.namespaced -}}
{{- range (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes").ports -}}
{{- $ports = append $ports (int .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toJson (uniq $ports) }}
{{- end }}

{{/* Name of everything that is the CXL node plugin's. */}}
{{- define "ballast.cxlNode" -}}
{{ .Release.Name }}-cxl-node
{{- end }}

{{/* Namespace of node plugins, which are privileged and so are kept apart. */}}
{{- define "ballast.driversNamespace" -}}
ballast-drivers
{{- end }}

{{- define "ballast.cxlNodeSelector" -}}
app.kubernetes.io/name: ballast-cxl-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ballast.cxlNodeLabels" -}}
{{ include "ballast.cxlNodeSelector" . }}
app.kubernetes.io/part-of: ballast
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Name of everything that is the region controller's. */}}
{{- define "ballast.cxl" -}}
{{ .Release.Name }}-cxl
{{- end }}

{{/* Labels by which its pods are selected. */}}
{{- define "ballast.cxlSelector" -}}
app.kubernetes.io/name: ballast-cxl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ballast.cxlLabels" -}}
{{ include "ballast.cxlSelector" . }}
app.kubernetes.io/part-of: ballast
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Which claims are for regions, and how their selectors are read; part of two admission policies. */}}
{{- define "ballast.cxlClaims" }}
  failurePolicy: Fail
  matchConstraints:
    matchPolicy: Equivalent
    resourceRules:
      - apiGroups: [resource.k8s.io]
        apiVersions: [v1]
        resources: [resourceclaims, resourceclaimtemplates]
        operations: [CREATE, UPDATE]
  matchConditions: # claims for other devices are nobody's business here
    - name: asks-for-a-region
      expression: >-
        (request.resource.resource == 'resourceclaims' ? object.spec : object.spec.spec).?devices.?requests.orValue([])
        .exists(r, (has(r.exactly) ? [r.exactly] : r.?firstAvailable.orValue([]))
        .exists(e, e.deviceClassName == 'region.cxl.ballast.dev'))
  variables:
    - name: spec
      expression: "request.resource.resource == 'resourceclaims' ? object.spec : object.spec.spec"
    - name: selectors
      expression: >-
        variables.spec.devices.requests.map(r, (has(r.exactly) ? [r.exactly] : r.?firstAvailable.orValue([]))
        .filter(e, e.deviceClassName == 'region.cxl.ballast.dev')
        .map(e, e.?selectors.orValue([]).map(s, s.?cel.?expression.orValue('')).join('\n')))
    - name: form
      expression: >-
        r'^device\.attributes\["cxl\.ballast\.dev"\]\.namespace == "[a-z0-9-]+"'
        + r' && device\.attributes\["cxl\.ballast\.dev"\]\.name == "[a-z0-9-]+"$'
{{- end }}
