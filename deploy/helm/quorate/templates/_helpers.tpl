{{- define "quorate.name" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- $name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "quorate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quorate.labels" -}}
{{ include "quorate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The roles and their processes, in YAML. */ -}}
{{- define "quorate.roles" -}}
{{- $shared := or .Values.postgres.existingSecret .Values.config.store }}
{{- if not .Values.config.networks }}{{ fail "config.networks is empty: name a network and its nodes" }}{{ end }}
{{- if .Values.roles }}
{{- if not $shared }}{{ fail "roles needs PostgreSQL: set postgres.existingSecret" }}{{ end }}
{{- toYaml .Values.roles }}
{{- else }}
{{- if and (gt (int .Values.replicas) 1) (not $shared) }}{{ fail "replicas above 1 needs PostgreSQL: set postgres.existingSecret" }}{{ end }}
{{- toYaml (dict "all" (dict "replicas" .Values.replicas)) }}
{{- end }}
{{- end }}

{{- /* The name of what belongs to a role; call it with a list of the context and the role. */ -}}
{{- define "quorate.roleName" -}}
{{- $name := include "quorate.name" (index . 0) }}
{{- if eq (index . 1) "all" }}{{ $name }}{{ else }}{{ $name }}-{{ index . 1 }}{{ end }}
{{- end }}

{{- define "quorate.config" -}}
{{- toYaml .Values.config }}
{{- end }}
