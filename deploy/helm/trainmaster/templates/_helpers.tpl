{{- /* Names, labels and the parts that all pods of the platform have in common. */ -}}

{{- define "trainmaster.fullname" -}}
{{- if contains "trainmaster" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-trainmaster" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Called with (dict "root" $ "component" "scheduler"). */ -}}
{{- define "trainmaster.name" -}}
{{- printf "%s-%s" (include "trainmaster.fullname" .root) .component -}}
{{- end -}}

{{- define "trainmaster.selector" -}}
app.kubernetes.io/name: trainmaster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "trainmaster.labels" -}}
{{ include "trainmaster.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "trainmaster.image" -}}
{{- include "trainmaster.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{- /* Called with (dict "root" $ "image" values of an image). */ -}}
{{- define "trainmaster.imageOf" -}}
{{- with .image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.root.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Names of the objects that hold what was made once; existing ones take their place. */ -}}
{{- define "trainmaster.passwordsSecret" -}}
{{- .Values.nats.existingPasswordsSecret | default (printf "%s-nats-passwords" (include "trainmaster.fullname" .)) -}}
{{- end -}}
{{- define "trainmaster.signingSecret" -}}
{{- .Values.keys.existingSigningSecret | default (printf "%s-signing-key" (include "trainmaster.fullname" .)) -}}
{{- end -}}
{{- define "trainmaster.sealingSecret" -}}
{{- .Values.keys.existingSealingSecret | default (printf "%s-secret-keys" (include "trainmaster.fullname" .)) -}}
{{- end -}}
{{- define "trainmaster.adminSecret" -}}
{{- .Values.admin.existingSecret | default (printf "%s-admin" (include "trainmaster.fullname" .)) -}}
{{- end -}}
{{- define "trainmaster.tlsSecret" -}}
{{- if eq .Values.nats.tls.mode "existing" -}}
{{- required "nats.tls.existingSecret must name the Secret with tls.crt, tls.key and ca.crt" .Values.nats.tls.existingSecret -}}
{{- else -}}
{{- printf "%s-nats-tls" (include "trainmaster.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "trainmaster.natsHost" -}}
{{- printf "%s-nats.%s.svc" (include "trainmaster.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- /* The host names that a server of NATS is known by, as a JSON list. */ -}}
{{- define "trainmaster.natsNames" -}}
{{- $short := printf "%s-nats" (include "trainmaster.fullname" .) -}}
{{- $zone := printf "%s.svc" .Release.Namespace -}}
{{- $names := list "localhost" $short (printf "%s.%s" $short .Release.Namespace) (printf "%s.%s" $short $zone) -}}
{{- $names = append $names (printf "%s.%s.%s" $short $zone .Values.clusterDomain) -}}
{{- $names = append $names (printf "*.%s-headless" $short) -}}
{{- $names = append $names (printf "*.%s-headless.%s.svc" $short .Release.Namespace) -}}
{{- $names = append $names (printf "*.%s-headless.%s.%s" $short $zone .Values.clusterDomain) -}}
{{- toJson $names -}}
{{- end -}}

{{- define "trainmaster.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.user }}
runAsGroup: {{ .Values.podSecurity.user }}
fsGroup: {{ .Values.podSecurity.user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "trainmaster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* The Pod Security level of the jobs' namespace, by what the scheduler is told to allow, as it reckons itself for
namespaces that it makes. */ -}}
{{- define "trainmaster.jobsPodSecurity" -}}
{{- $env := .Values.scheduler.env -}}
{{- $yes := list "true" "1" "yes" "y" "on" "t" -}}
{{- if .Values.jobs.podSecurity -}}
{{- .Values.jobs.podSecurity -}}
{{- else if $env.TRAINMASTER_KUBE_HOST_PREFIXES -}}
privileged
{{- else if or (has (toString $env.TRAINMASTER_KUBE_NFS | lower) $yes) (eq (toString $env.TRAINMASTER_KUBE_RUN_AS) "root") -}}
baseline
{{- else -}}
restricted
{{- end -}}
{{- end -}}

{{- define "trainmaster.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "trainmaster.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* How a client of NATS finds it, as the user .user. */ -}}
{{- define "trainmaster.natsEnv" -}}
- name: TRAINMASTER_NATS_URL
  value: {{ .root.Values.clusters.natsUrl | default (printf "nats://%s:4222" (include "trainmaster.natsHost" .root)) | quote }}
- {name: TRAINMASTER_NATS_CA_FILE, value: /etc/trainmaster/nats/ca.crt}
- {name: TRAINMASTER_NATS_USER, value: {{ .user }}}
- name: TRAINMASTER_NATS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ include "trainmaster.passwordsSecret" .root }}, key: {{ .user }}}
{{- end -}}

{{- define "trainmaster.natsVolume" -}}
- name: nats-ca
  secret:
    secretName: {{ include "trainmaster.tlsSecret" . }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end -}}

{{- /* The variables `.defaults`, but for those that the map `.env` has others for, and then these. A name that is there
twice is refused by server-side apply. */ -}}
{{- define "trainmaster.env" -}}
{{- include "trainmaster.checkedEnv" . }}
{{- range .defaults | fromYamlArray }}
{{- if not (hasKey $.env .name) }}
{{ list . | toYaml }}
{{- end }}
{{- end }}
{{- range $name, $value := .env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- /* Refuses variables of the platform that the component does not read. The file, a component and a variable a line, is
written by `python -m deploy.helm`. */ -}}
{{- define "trainmaster.checkedEnv" -}}
{{- $known := .root.Files.Get "files/variables.txt" | trim | splitList "\n" }}
{{- range $name, $_ := .env }}
{{- if and (hasPrefix "TRAINMASTER_" $name) (not (has (printf "%s %s" $.component $name) $known)) }}
{{- $readers := list }}
{{- $alike := list }}
{{- $start := printf "%s %s_" $.component (splitList "_" $name | initial | join "_") }}
{{- range $known }}
{{- if eq (last (splitList " " .)) $name }}
{{- $readers = append $readers (first (splitList " " .)) }}
{{- end }}
{{- if hasPrefix $start . }}
{{- $alike = append $alike (last (splitList " " .)) }}
{{- end }}
{{- end }}
{{- $hint := "see docs/operator.md and docs/kubernetes.md for those that there are" }}
{{- with $alike }}{{ $hint = printf "there is: %s" (join ", " .) }}{{ end }}
{{- with $readers }}{{ $hint = printf "it is for: %s" (join ", " .) }}{{ end }}
{{- fail (printf "%s.env: %s does not read %s; %s" $.component $.component $name $hint) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Variables of a service: NATS, HTTP, keys, S3, and its own in `.env`. */ -}}
{{- define "trainmaster.serviceEnv" -}}
{{- if has .component (list "scheduler" "logs") }}
- name: TRAINMASTER_INSTANCE
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
{{- end }}
{{- with .env }}
{{ toYaml . }}
{{- end }}
{{ include "trainmaster.natsEnv" (dict "root" .root "user" .component) }}
- name: TRAINMASTER_HOST
  value: "0.0.0.0"
- {name: TRAINMASTER_PORT, value: "8080"}
- {name: TRAINMASTER_HOME, value: /var/lib/trainmaster}
- {name: HOME, value: /tmp}
- {name: TRAINMASTER_LOG_LEVEL, value: {{ .root.Values.logLevel }}}
{{- if eq .component "submitter" }}
- {name: TRAINMASTER_SIGNING_KEY_FILE, value: /etc/trainmaster/signing/signing-key.pem}
{{- else }}
- {name: TRAINMASTER_JWKS_FILE, value: /etc/trainmaster/signing/certificates.pem}
{{- end }}
{{- if has .component (list "submitter" "scheduler" "watchdog") }}
- {name: TRAINMASTER_SECRET_KEYS_FILE, value: /etc/trainmaster/sealing/secret-keys.json}
{{- end }}
{{- if and .root.Values.s3.existingSecret (ne .component "diagnoser") }}
{{- with .root.Values.s3 }}
- name: TRAINMASTER_S3_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret }}, key: key-id}
- {name: TRAINMASTER_S3_SECRET_KEY_FILE, value: /etc/trainmaster/s3/secret-key}
- {name: TRAINMASTER_S3_REGION, value: {{ .region | quote }}}
{{- with .endpoint }}
- {name: TRAINMASTER_S3_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "trainmaster.serviceMounts" -}}
- {name: nats-ca, mountPath: /etc/trainmaster/nats, readOnly: true}
- {name: signing, mountPath: /etc/trainmaster/signing, readOnly: true}
{{- if has .component (list "submitter" "scheduler" "watchdog") }}
- {name: sealing, mountPath: /etc/trainmaster/sealing, readOnly: true}
{{- end }}
{{- if and .root.Values.s3.existingSecret (ne .component "diagnoser") }}
- {name: s3, mountPath: /etc/trainmaster/s3, readOnly: true}
{{- end }}
{{- if and .root.Values.clusters.kubeconfigSecret (eq .component "scheduler") }}
- {name: clusters, mountPath: /etc/trainmaster/clusters, readOnly: true}
{{- end }}
- {name: home, mountPath: /var/lib/trainmaster}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- /* Volumes of a service but `home`, which each says for itself. */ -}}
{{- define "trainmaster.serviceVolumes" -}}
{{ include "trainmaster.natsVolume" .root }}
- name: signing
  secret:
    secretName: {{ include "trainmaster.signingSecret" .root }}
    {{- if eq .component "submitter" }}
    items: [{key: signing-key.pem, path: signing-key.pem}]
    {{- else }}
    items: [{key: certificates.pem, path: certificates.pem}]
    {{- end }}
{{- if has .component (list "submitter" "scheduler" "watchdog") }}
- name: sealing
  secret:
    secretName: {{ include "trainmaster.sealingSecret" .root }}
    items: [{key: secret-keys.json, path: secret-keys.json}]
{{- end }}
{{- if and .root.Values.s3.existingSecret (ne .component "diagnoser") }}
- name: s3
  secret:
    secretName: {{ .root.Values.s3.existingSecret }}
    items: [{key: secret-key, path: secret-key}]
{{- end }}
{{- if and .root.Values.clusters.kubeconfigSecret (eq .component "scheduler") }}
- name: clusters
  secret:
    secretName: {{ .root.Values.clusters.kubeconfigSecret }}
    items: [{key: kubeconfig, path: kubeconfig}]
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{- /* The pod of a service, but its volume `home`. */ -}}
{{- define "trainmaster.servicePod" -}}
{{- $values := index .root.Values .component -}}
serviceAccountName: {{ include "trainmaster.name" . }}
automountServiceAccountToken: {{ eq .component "scheduler" }}
enableServiceLinks: false
terminationGracePeriodSeconds: 60
{{- include "trainmaster.pullSecrets" .root }}
securityContext: {{- include "trainmaster.podSecurity" .root | nindent 2 }}
{{- include "trainmaster.placement" $values }}
{{- if gt (int $values.replicas) 1 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "trainmaster.selector" . | nindent 8 }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "trainmaster.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [python, -m, services.{{ .component }}]
    env: {{- include "trainmaster.env" (dict "root" .root "component" .component "defaults" (include "trainmaster.serviceEnv" .) "env" $values.env) | nindent 6 }}
    ports:
      - {name: http, containerPort: 8080}
    startupProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 2
      failureThreshold: 150
    livenessProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    # Looks at JetStream and at every consumer of the service, not only at the socket.
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 5
      timeoutSeconds: 5
    resources: {{- toYaml $values.resources | nindent 6 }}
    securityContext: {{- include "trainmaster.containerSecurity" .root | nindent 6 }}
    volumeMounts: {{- include "trainmaster.serviceMounts" . | nindent 6 }}
volumes:
  {{- include "trainmaster.serviceVolumes" . | nindent 2 }}
{{- end -}}

{{- /* Service, account and disruption budget of a service. */ -}}
{{- define "trainmaster.serviceObjects" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "trainmaster.name" . }}
  labels: {{- include "trainmaster.labels" . | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "trainmaster.name" . }}
  labels:
    {{- include "trainmaster.labels" . | nindent 4 }}
    trainmaster.dev/metrics: "true"
spec:
  selector: {{- include "trainmaster.selector" . | nindent 4 }}
  ports:
    - {name: http, port: 8080, targetPort: http}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "trainmaster.name" . }}
  labels: {{- include "trainmaster.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "trainmaster.selector" . | nindent 6 }}
{{- end -}}

{{- /* What the scheduler is told of the cluster that it places in. */ -}}
{{- define "trainmaster.engineEnv" -}}
- {name: TRAINMASTER_ENGINE, value: kubernetes}
- {name: TRAINMASTER_CLUSTER, value: {{ .Values.cluster | quote }}}
{{- with .Values.clusters.contexts }}
{{- $_ := required "clusters.contexts names contexts, so clusters.kubeconfigSecret must name the Secret with the key kubeconfig" $.Values.clusters.kubeconfigSecret }}
- {name: TRAINMASTER_KUBE_CONTEXTS, value: {{ . | quote }}}
- {name: KUBECONFIG, value: /etc/trainmaster/clusters/kubeconfig}
{{- end }}
- {name: TRAINMASTER_QUARANTINE_MAX_PERCENT, value: {{ .Values.quarantineMaxPercent | quote }}}
- {name: TRAINMASTER_KUBE_NAMESPACE, value: {{ .Values.jobs.namespace | quote }}}
- {name: TRAINMASTER_KUBE_NAMESPACE_PREFIX, value: {{ .Values.jobs.namespacePrefix | quote }}}
- {name: TRAINMASTER_KUBE_IMAGE, value: {{ include "trainmaster.image" . | quote }}}
{{- with .Values.jobs.pullSecrets }}
- {name: TRAINMASTER_KUBE_PULL_SECRETS, value: {{ join "," . | quote }}}
{{- end }}
- {name: TRAINMASTER_KUBE_CODE_URL, value: "http://{{ include "trainmaster.name" (dict "root" . "component" "scheduler") }}.{{ .Release.Namespace }}.svc:8080"}
{{- end -}}

{{- /* Names of the users of NATS, as a JSON list; the file is written by `python -m deploy.helm`. */ -}}
{{- define "trainmaster.natsUsers" -}}
{{- .Files.Get "files/nats-users.txt" | trim | splitList "\n" | toJson -}}
{{- end -}}

{{- /* Path prefixes of the services, in the form of the design: who answers what. Pods of other clusters fetch large code
this way, too, each with its ticket. */ -}}
{{- define "trainmaster.prefixes" -}}
submitter: [/v1/assets, /v1/auth, /v1/jobs]
scheduler: [/v1/clusters, {{ if .Values.clusters.contexts }}/v1/gang-code, {{ end }}/v1/instance-types, /v1/nodes, /v1/plans, /v1/pools, /v1/queue, /v1/sandboxes, /v1/usage]
watchdog: [/v1/incidents, /v1/notifications, /v1/rules]
diagnoser: [/v1/diagnoses]
logs: [/v1/log-search, /v1/logs, /v1/resources, /v1/scalars, /v1/tensorboard]
{{- end -}}
