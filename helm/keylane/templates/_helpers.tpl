{{- define "keylane.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{/* At most 50 letters, so that a suffix fits into 63. */}}
{{- define "keylane.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "keylane.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "keylane.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Arguments: root, component. */}}
{{- define "keylane.selector" -}}
app.kubernetes.io/name: {{ include "keylane.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "keylane.labels" -}}
{{ include "keylane.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Arguments: image, tag (where none is given). */}}
{{- define "keylane.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .tag) -}}
{{- end -}}
{{- end }}

{{- define "keylane.own-image" -}}
{{ include "keylane.image" (dict "image" .Values.image "tag" .Chart.AppVersion) }}
{{- end }}

{{/* What every container is held to. Arguments: user. */}}
{{- define "keylane.container-security" -}}
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
privileged: false
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "keylane.pod-security" -}}
runAsNonRoot: true
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "keylane.on-kafka" -}}
{{- if hasPrefix "kafka:" .Values.broker.url }}true{{ end -}}
{{- end }}

{{- define "keylane.on-postgres" -}}
{{- if hasPrefix "postgres" .Values.store.url }}true{{ end -}}
{{- end }}

{{/* Whether anything is kept in a file under /var/lib/keylane. */}}
{{- define "keylane.keeps-files" -}}
{{- if not (and (include "keylane.on-kafka" .) (include "keylane.on-postgres" .)) }}true{{ end -}}
{{- end }}

{{/* Where log, group and store are, for every command of a worker's pod. */}}
{{- define "keylane.place-args" -}}
- {{ printf "--broker=%s" .Values.broker.url | quote }}
{{- with .Values.store.url }}
- {{ printf "--store=%s" . | quote }}
{{- end }}
- {{ printf "--queue=%s" .Values.queue.name | quote }}
- {{ printf "--group=%s" .Values.queue.group | quote }}
{{- range $name, $value := .Values.broker.properties }}
- {{ printf "--kafka-property=%s=%s" $name (toString $value) | quote }}
{{- end }}
{{- end }}

{{/* Mounts of what the commands of a worker's pod read and keep. */}}
{{- define "keylane.place-mounts" -}}
{{- if include "keylane.keeps-files" . -}}
- { name: data, mountPath: /var/lib/keylane }
{{ end -}}
{{- if .Values.broker.secretName -}}
- { name: kafka, mountPath: /etc/keylane/kafka, readOnly: true }
{{ end -}}
{{- if .Values.store.secretName -}}
- { name: postgres, mountPath: /etc/keylane/postgres, readOnly: true }
{{ end -}}
{{- end }}

{{/* What no schema can say. */}}
{{- define "keylane.check" -}}
{{- $v := .Values -}}
{{- if and (gt (int $v.worker.replicas) 1) (include "keylane.keeps-files" .) -}}
{{- fail "worker.replicas: an SQLite file is for the workers of one machine: for more than one replica set broker.url to kafka://HOST:PORT and store.url to postgres://USER@HOST/DATABASE" -}}
{{- end -}}
{{- if and (include "keylane.on-kafka" .) (not $v.store.url) -}}
{{- fail "store.url: with Kafka as the broker, say where effects are written: postgres://USER@HOST/DATABASE" -}}
{{- end -}}
{{- if and (not (include "keylane.on-kafka" .)) $v.broker.properties -}}
{{- fail "broker.properties: only a kafka:// broker has properties" -}}
{{- end -}}
{{- if gt (int $v.handler.timeoutSeconds) (int $v.worker.drainTimeoutSeconds) -}}
{{- fail "handler.timeoutSeconds: a job may run longer than worker.drainTimeoutSeconds: each end of a pod would cut it short; raise the one or lower the other" -}}
{{- end -}}
{{- if and $v.handler.image.repository (not $v.handler.exec) -}}
{{- fail "handler.exec: handler.image is set: say which program in it runs the jobs" -}}
{{- end -}}
{{- if and $v.handler.image.repository (not $v.handler.image.tag) (not $v.handler.image.digest) -}}
{{- fail "handler.image: give a tag or a digest" -}}
{{- end -}}
{{- if and $v.handler.fence (not (include "keylane.on-postgres" .)) -}}
{{- fail "handler.fence: only a Postgres store has keylane.admit" -}}
{{- end -}}
{{- if and $v.handler.fence (not $v.handler.exec) -}}
{{- fail "handler.fence: there is no program to give it to; set handler.exec" -}}
{{- end -}}
{{- if and $v.board.enabled (not $v.sidecar.enabled) -}}
{{- fail "board.enabled: a board asks the sidecars: set sidecar.enabled, or board.enabled to false" -}}
{{- end -}}
{{- if lt (int $v.board.lostAfterSeconds) (int $v.board.staleAfterSeconds) -}}
{{- fail "board.lostAfterSeconds: shorter than board.staleAfterSeconds" -}}
{{- end -}}
{{- if and (regexMatch "[?&]password=" $v.store.url) (not (regexMatch "[?&]password=file:/etc/keylane/postgres/[^&]+" $v.store.url)) -}}
{{- fail "store.url: the password comes from a mounted file: ?password=file:/etc/keylane/postgres/ENTRY, with store.secretName" -}}
{{- end -}}
{{- if and (contains "/etc/keylane/postgres/" $v.store.url) (not $v.store.secretName) -}}
{{- fail "store.secretName: store.url names files of it: say which Secret has them" -}}
{{- end -}}
{{- range $name, $value := $v.broker.properties -}}
{{- if and (contains "/etc/keylane/kafka/" (toString $value)) (not $v.broker.secretName) -}}
{{- fail (printf "broker.secretName: '%s' names a file of it: say which Secret has it" $name) -}}
{{- end -}}
{{- if and (regexMatch "(password|secret|token|[.]key[.]pem|jaas)" $name) (not (hasPrefix "file:/etc/keylane/kafka/" (toString $value))) (not (hasPrefix "sasl.oauthbearer.token.endpoint" $name)) -}}
{{- fail (printf "broker.properties: '%s' may be a secret: write file:/etc/keylane/kafka/ENTRY, with broker.secretName" $name) -}}
{{- end -}}
{{- end -}}
{{- range $arg := $v.worker.extraArgs -}}
{{- if regexMatch "^--(broker|store|queue|group|exec|builtin|drain-timeout|job-timeout|session-timeout|concurrency|snapshot-file|show-keys|fence-to-handler|kafka-propert(y|ies)|name|log-format)(=|$)" $arg -}}
{{- fail (printf "worker.extraArgs: '%s' has a value of this chart's own" (first (splitList "=" $arg))) -}}
{{- end -}}
{{- end -}}
{{- end }}
