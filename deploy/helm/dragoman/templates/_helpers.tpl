{{- define "dragoman.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of an object: dict "root" $ "part" "instance" */}}
{{- define "dragoman.labels" -}}
{{ include "dragoman.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* The labels that find the pods of a part. */}}
{{- define "dragoman.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "dragoman.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "dragoman.nodeImage" -}}
{{ .Values.nodes.image.repository | default .Values.image.repository }}:{{ .Values.nodes.image.tag | default (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}

{{/* As the image has it: a user without rights, nothing to write to but its volumes. */}}
{{- define "dragoman.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "dragoman.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: ["ALL"] }
{{- end -}}

{{- define "dragoman.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{/* Trust the authority of the instances' certificate. */}}
{{- define "dragoman.caVariable" -}}
{{- if and .Values.tls.existingSecret .Values.tls.caKey -}}
- { name: SSL_CERT_FILE, value: /etc/dragoman-tls/{{ .Values.tls.caKey }} }
{{- end -}}
{{- end -}}

{{/* The authority alone, without the private key. */}}
{{- define "dragoman.caVolume" -}}
{{- if and .Values.tls.existingSecret .Values.tls.caKey -}}
- name: authority
  secret:
    secretName: {{ .Values.tls.existingSecret }}
    items: [{ key: {{ .Values.tls.caKey }}, path: {{ .Values.tls.caKey }} }]
{{- end -}}
{{- end -}}

{{/* Where nodes find the instances. */}}
{{- define "dragoman.nodeUrl" -}}
{{ if .Values.tls.existingSecret }}wss{{ else }}ws{{ end }}://{{ include "dragoman.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}

{{/* The variable with the URL of Redis or the database: dict "root" $ "name" ... "of" .Values.redis "key" ... */}}
{{- define "dragoman.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      {{- if .of.existingSecret.name }}
      name: {{ .of.existingSecret.name }}
      key: {{ .of.existingSecret.key }}
      {{- else if .of.bundled.enabled }}
      name: {{ include "dragoman.fullname" .root }}-urls
      key: {{ .key }}
      {{- else }}
      {{- fail (printf "set %s.existingSecret.name, or %s.bundled.enabled" .what .what) }}
      {{- end }}
{{- end -}}

{{/* What instances and workers have in common. */}}
{{- define "dragoman.environment" -}}
- { name: DRAGOMAN_CONFIG, value: /etc/dragoman/dragoman.toml }
- { name: DRAGOMAN_SERVER__DATA_DIR, value: /var/lib/dragoman }
{{ include "dragoman.secretVariable" (dict "root" . "name" "DRAGOMAN_STORE__DATABASE_URL" "of" .Values.database "what" "database" "key" "database-url") }}
- { name: DRAGOMAN_LAB__ENABLED, value: {{ .Values.lab.enabled | quote }} }
{{- if .Values.lab.enabled }}
# Workers hear of work through the database when Redis is a Cluster, which cannot carry the queue.
{{- if .Values.redis.cluster }}
- { name: DRAGOMAN_LAB__QUEUE_URL, value: database }
{{- else }}
{{ include "dragoman.secretVariable" (dict "root" . "name" "DRAGOMAN_LAB__QUEUE_URL" "of" .Values.redis "what" "redis" "key" "redis-url") }}
{{- end }}
{{- with .Values.lab.analyticsSecret }}
{{- if .name }}
- name: DRAGOMAN_LAB__ANALYTICS_URL
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- else }}
# A DuckDB file has one owner; of several instances each reads results from the database.
- { name: DRAGOMAN_LAB__ANALYTICS_URL, value: "" }
{{- end }}
{{- end }}
- { name: DRAGOMAN_LAB__OWN_WORKER, value: {{ eq (int .Values.lab.workers.replicas) 0 | quote }} }
{{- end }}
{{- end -}}

{{/* A password that stays: given, found in the release's secret, or drawn now. */}}
{{- define "dragoman.password" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace (printf "%s-urls" (include "dragoman.fullname" .root)) -}}
{{- if .given -}}
{{ .given }}
{{- else if and $found (hasKey $found.data .key) -}}
{{ index $found.data .key | b64dec }}
{{- else -}}
{{ randAlphaNum 32 }}
{{- end -}}
{{- end -}}
