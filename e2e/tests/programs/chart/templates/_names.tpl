{{- define "harbour.labels" -}}
app.kubernetes.io/name: harbour
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "harbour.selector" -}}
app.kubernetes.io/name: harbour
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
