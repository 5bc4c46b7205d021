{{- define "retentiond.name" -}}
{{- .Values.nameOverride | default "retentiond" | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* 52: what a StatefulSet adds to its name must fit a label's 63. */}}
{{- define "retentiond.fullname" -}}
{{- $own := include "retentiond.name" . -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if not (or .Values.fullnameOverride (contains $own $name)) }}{{ $name = printf "%s-%s" $name $own }}{{ end -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "retentiond.release" -}}
app.kubernetes.io/name: {{ include "retentiond.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "retentiond.labels" -}}
{{ include "retentiond.release" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of the daemon alone: the pod of `helm test` has another component. */}}
{{- define "retentiond.daemon" -}}
{{ include "retentiond.release" . }}
app.kubernetes.io/component: daemon
{{- end }}

{{- define "retentiond.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "retentiond.port" -}}
{{ dig "http" "port" 9477 .Values.config }}
{{- end }}

{{- define "retentiond.scheme" -}}
{{ ternary "https" "http" (hasKey (dig "http" dict .Values.config) "tls") }}
{{- end }}

{{- define "retentiond.state-dir" -}}
{{ .Values.config.state_dir | default "/var/lib/retentiond" }}
{{- end }}

{{/* retentiond.yaml as the values give it, with the policy files that are values. */}}
{{- define "retentiond.config-of-values" -}}
{{- $config := deepCopy .Values.config -}}
{{- /* Not by merge, for which false is empty. */}}
{{- if not (hasKey ($config.reload | default dict) "watch") }}{{ $_ := set $config "reload" (dict "watch" true) }}{{ end -}}
{{- $policies := list -}}
{{- with $config.policies -}}
{{- $policies = ternary . (list .) (kindIs "slice" .) -}}
{{- end -}}
{{- if .Values.policies }}{{ $policies = append $policies "policies.d/*.yaml" }}{{ end -}}
{{- if $policies }}{{ $_ := set $config "policies" $policies }}{{ end -}}
{{- toYaml $config -}}
{{- end }}

{{/* The same with the teams' own ConfigMaps, each with its fence if it has one. */}}
{{- define "retentiond.config" -}}
{{- $config := include "retentiond.config-of-values" . | fromYaml -}}
{{- $policies := $config.policies | default list -}}
{{- range .Values.policyConfigMaps -}}
{{- if kindIs "string" . -}}
{{- $policies = append $policies (printf "policies.from/%s/*.yaml" .) -}}
{{- else -}}
{{- $file := printf "policies.from/%s/%s" .name .key -}}
{{- $policies = append $policies (ternary (merge (dict "file" $file) (omit . "name" "key")) $file (hasKey . "topics")) -}}
{{- end -}}
{{- end -}}
{{- if $policies }}{{ $_ := set $config "policies" $policies }}{{ end -}}
{{- toYaml $config -}}
{{- end }}

{{/* The teams' own ConfigMaps: name to whether the pod starts without it, as it does where all that is
read from it is fenced. */}}
{{- define "retentiond.policy-config-maps" -}}
{{- $maps := dict -}}
{{- range .Values.policyConfigMaps -}}
{{- $name := ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .) -}}
{{- $fenced := and (kindIs "map" .) (hasKey (ternary . dict (kindIs "map" .)) "topics") -}}
{{- $_ := set $maps $name (and $fenced (ne (get $maps $name | toString) "false")) -}}
{{- end -}}
{{- toYaml $maps -}}
{{- end }}

{{/* What a running daemon does not take from changed files. */}}
{{- define "retentiond.read-at-start" -}}
{{- $config := include "retentiond.config" . | fromYaml -}}
{{- if $config.reload.watch -}}
{{- pick $config "http" "state_dir" | toYaml -}}
{{- else -}}
{{- toYaml $config }}{{ toYaml .Values.policies -}}
{{- end -}}
{{- end }}

{{/* One policy file: a mapping that the schema has checked, or the text of a file as it is. */}}
{{- define "retentiond.policy" -}}
{{- $name := index . 0 -}}
{{- $policy := index . 1 -}}
{{- if kindIs "string" $policy -}}
{{- $read := fromYaml $policy -}}
{{- range list "owner" "topics" -}}
{{- if not (hasKey $read .) }}{{ fail (printf "policies.%s: the text is no policy file with owner and topics" $name) }}{{ end -}}
{{- end -}}
{{- $policy -}}
{{- else -}}
{{- toYaml $policy -}}
{{- end -}}
{{- end }}

{{- define "retentiond.service-account" -}}
{{ .Values.serviceAccountName | default (include "retentiond.fullname" .) }}
{{- end }}

{{/* Where the alerts and the dashboard say that the runbook is: at the chart's home, which a release
knows, unless it is published elsewhere. */}}
{{- define "retentiond.runbook" -}}
{{- $default := "docs/runbook.md" -}}
{{- with .Chart.Home }}{{ $default = printf "%s/blob/v%s/docs/runbook.md" . $.Chart.Version }}{{ end -}}
{{- .Values.rules.runbookUrl | default $default -}}
{{- end }}

{{/* What every pod has: no rights, a user who is not root, and the files of the configuration. */}}
{{- define "retentiond.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $security := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- with .Values.user -}}
{{- $user := int64 . -}}
{{- $security = merge $security (dict "runAsUser" $user "runAsGroup" $user "fsGroup" $user "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end }}
securityContext: {{- toYaml (mergeOverwrite $security .Values.podSecurityContext) | nindent 2 }}
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "retentiond.image-and-rights" -}}
image: {{ include "retentiond.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- $security := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
securityContext: {{- toYaml (mergeOverwrite $security .Values.securityContext) | nindent 2 }}
{{- end }}

{{- define "retentiond.container" -}}
{{ include "retentiond.image-and-rights" . }}
{{- with .Values.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  # Without subPath, so that changes reach the pod. The kubelet makes the folders of the mounts below it.
  - {name: config, mountPath: /etc/retentiond, readOnly: true}
  {{- if .Values.policies }}
  - {name: policies, mountPath: /etc/retentiond/policies.d, readOnly: true}
  {{- end }}
  {{- range $at, $name := include "retentiond.policy-config-maps" . | fromYaml | keys | sortAlpha }}
  - {name: policies-{{ $at }}, mountPath: /etc/retentiond/policies.from/{{ $name }}, readOnly: true}
  {{- end }}
  {{- range $folder, $_ := .Values.secrets }}
  - {name: secret-{{ $folder }}, mountPath: /etc/retentiond/secrets/{{ $folder }}, readOnly: true}
  {{- end }}
  - {name: state, mountPath: {{ include "retentiond.state-dir" . }}}
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* All but the state's. */}}
{{- define "retentiond.volumes" -}}
- name: config
  configMap: {name: {{ include "retentiond.fullname" . }}}
{{- if .Values.policies }}
- name: policies
  configMap: {name: {{ include "retentiond.fullname" . }}-policies}
{{- end }}
{{- $maps := include "retentiond.policy-config-maps" . | fromYaml }}
{{- range $at, $name := keys $maps | sortAlpha }}
- name: policies-{{ $at }}
  configMap: {name: {{ $name }}{{ if get $maps $name }}, optional: true{{ end }}}
{{- end }}
{{- range $folder, $secret := .Values.secrets }}
- name: secret-{{ $folder }}
  secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
{{- end }}
# Spark's scratch files and the native libraries that the JVM unpacks.
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmp.sizeLimit }}}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Lives it? With basic_auth the kubelet's own request would be refused. */}}
{{- define "retentiond.healthz" -}}
{{- if dig "http" "basic_auth" "" .Values.config -}}
exec: {command: [python, -m, retentiond.healthcheck, {{ include "retentiond.port" . | quote }}]}
{{- else -}}
httpGet: {path: /healthz, port: http, scheme: {{ include "retentiond.scheme" . | upper }}}
{{- end }}
{{- end }}
