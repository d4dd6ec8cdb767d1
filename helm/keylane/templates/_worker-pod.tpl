{{/* The worker's pod: first the program and the queue, beside it the sidecar, then the worker with the handler as its child. */}}
{{- define "keylane.worker-pod" -}}
{{- $v := .Values -}}
{{- $foreign := $v.handler.image.repository -}}
metadata:
  labels:
    {{- include "keylane.labels" (dict "root" . "component" "worker") | nindent 4 }}
    {{- with $v.worker.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $v.worker.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "keylane.fullname" . }}-worker
  automountServiceAccountToken: false
  enableServiceLinks: false
  shareProcessNamespace: false
  terminationGracePeriodSeconds: {{ add (int $v.worker.drainTimeoutSeconds) 15 }}
  securityContext: {{- include "keylane.pod-security" . | nindent 4 }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.worker.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $v.worker.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.worker.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.worker.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- with $v.worker.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "keylane.selector" (dict "root" . "component" "worker") | nindent 10 }}
    {{- end }}
  {{- if or $foreign $v.queue.create $v.sidecar.enabled }}
  initContainers:
    {{- if $foreign }}
    - name: program
      image: {{ include "keylane.own-image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [cp, /usr/local/bin/keylane, /opt/keylane/keylane]
      securityContext: {{- include "keylane.container-security" (dict "user" 65532) | nindent 8 }}
      resources: {{- toYaml $v.sidecar.resources | nindent 8 }}
      volumeMounts:
        - { name: program, mountPath: /opt/keylane }
    {{- end }}
    {{- if $v.queue.create }}
    - name: queue
      image: {{ include "keylane.own-image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/local/bin/keylane]
      args:
        - queue
        - create
        - {{ $v.queue.name | quote }}
        - --if-missing
        - --partitions={{ int $v.queue.partitions }}
        {{- with $v.queue.replication }}
        - --replication={{ int . }}
        {{- end }}
        {{- include "keylane.place-args" . | nindent 8 }}
      # The worker's user: it makes a file that the worker writes.
      securityContext: {{- include "keylane.container-security" (dict "user" (int $v.handler.runAsUser)) | nindent 8 }}
      resources: {{- toYaml $v.worker.resources | nindent 8 }}
      volumeMounts:
        - { name: tmp, mountPath: /tmp }
        {{- with include "keylane.place-mounts" . | trim }}{{ . | nindent 8 }}{{ end }}
    {{- end }}
    {{- if $v.sidecar.enabled }}
    # Starts before the worker and ends after it. No readiness and no startup probe: watching must not be able to block work.
    - name: sidecar
      restartPolicy: Always
      image: {{ include "keylane.own-image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/local/bin/keylane]
      args:
        - sidecar
        {{- range $v.sidecar.args }}
        - {{ tpl . $ | quote }}
        {{- end }}
      ports:
        - { name: sidecar, containerPort: {{ int $v.sidecar.port }} }
      livenessProbe:
        httpGet: { path: /livez, port: sidecar }
        periodSeconds: 10
        failureThreshold: 3
      # Another user than the worker's: /proc/PID/environ of the worker is closed to it.
      securityContext: {{- include "keylane.container-security" (dict "user" 65533) | nindent 8 }}
      resources: {{- toYaml $v.sidecar.resources | nindent 8 }}
      volumeMounts:
        - { name: snapshot, mountPath: /run/keylane, readOnly: true }
    {{- end }}
  {{- end }}
  containers:
    - name: worker
      {{- if $foreign }}
      image: {{ include "keylane.image" (dict "image" $v.handler.image "tag" "") | quote }}
      imagePullPolicy: {{ $v.handler.image.pullPolicy }}
      command: [/opt/keylane/keylane]
      {{- else }}
      image: {{ include "keylane.own-image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/local/bin/keylane]
      {{- end }}
      args:
        - work
        {{- include "keylane.place-args" . | nindent 8 }}
        - --log-format={{ $v.worker.logFormat }}
        - --concurrency={{ int $v.worker.concurrency }}
        - --session-timeout={{ int $v.worker.sessionTimeoutSeconds }}s
        - --drain-timeout={{ int $v.worker.drainTimeoutSeconds }}s
        - --job-timeout={{ int $v.handler.timeoutSeconds }}s
        {{- if or $v.sidecar.enabled $v.worker.probes.enabled }}
        - --snapshot-file=/run/keylane/snapshot.json
        - --show-keys={{ $v.worker.showKeys }}
        {{- end }}
        {{- if $v.handler.fence }}
        - --fence-to-handler
        {{- end }}
        {{- range $v.worker.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        {{- if $v.handler.exec }}
        - --exec
        {{- range $v.handler.exec }}
        - {{ . | quote }}
        {{- end }}
        {{- else }}
        - --builtin={{ $v.handler.builtin }}
        {{- end }}
      env:
        - name: KEYLANE_WORKER_NAME
          valueFrom: { fieldRef: { fieldPath: metadata.name } }
        {{- range $v.handler.env }}
        - name: {{ .name }}
          value: {{ .value | quote }}
        {{- end }}
      {{- if $v.worker.probes.enabled }}
      {{- $keylane := empty $foreign | ternary "/usr/local/bin/keylane" "/opt/keylane/keylane" }}
      # Nothing listens in a worker: each asks its file.
      startupProbe:
        exec: { command: [{{ $keylane }}, health, startup, --snapshot-file=/run/keylane/snapshot.json] }
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: {{ div (add (int $v.worker.probes.startupSeconds) 1) 2 }}
      livenessProbe:
        exec: { command: [{{ $keylane }}, health, live, --snapshot-file=/run/keylane/snapshot.json] }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        exec: { command: [{{ $keylane }}, health, ready, --snapshot-file=/run/keylane/snapshot.json] }
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      securityContext: {{- include "keylane.container-security" (dict "user" (int $v.handler.runAsUser)) | nindent 8 }}
      resources: {{- toYaml $v.worker.resources | nindent 8 }}
      volumeMounts:
        - { name: tmp, mountPath: /tmp }
        {{- if $foreign }}
        - { name: program, mountPath: /opt/keylane, readOnly: true }
        {{- end }}
        {{- if or $v.sidecar.enabled $v.worker.probes.enabled }}
        - { name: snapshot, mountPath: /run/keylane }
        {{- end }}
        {{- with include "keylane.place-mounts" . | trim }}{{ . | nindent 8 }}{{ end }}
        {{- range $i, $file := $v.handler.files }}
        - name: handler-{{ $i }}
          mountPath: {{ $file.mountPath | quote }}
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: { sizeLimit: 256Mi }
    {{- if $foreign }}
    - name: program
      emptyDir: { sizeLimit: 256Mi }
    {{- end }}
    {{- if or $v.sidecar.enabled $v.worker.probes.enabled }}
    - name: snapshot
      emptyDir: { medium: Memory, sizeLimit: 16Mi }
    {{- end }}
    {{- if include "keylane.keeps-files" . }}
    - name: data
      {{- if $v.persistence.enabled }}
      persistentVolumeClaim: { claimName: {{ $v.persistence.existingClaim | default (printf "%s-data" (include "keylane.fullname" .)) | quote }} }
      {{- else }}
      emptyDir: { sizeLimit: {{ $v.persistence.size }} }
      {{- end }}
    {{- end }}
    {{- with $v.broker.secretName }}
    - name: kafka
      secret: { secretName: {{ . | quote }}, defaultMode: 0400 }
    {{- end }}
    {{- with $v.store.secretName }}
    - name: postgres
      secret: { secretName: {{ . | quote }}, defaultMode: 0400 }
    {{- end }}
    {{- range $i, $file := $v.handler.files }}
    - name: handler-{{ $i }}
      {{- if $file.secretName }}
      secret: { secretName: {{ $file.secretName | quote }}, defaultMode: 0400 }
      {{- else }}
      configMap: { name: {{ $file.configMapName | quote }}, defaultMode: 0440 }
      {{- end }}
    {{- end }}
{{- end }}
