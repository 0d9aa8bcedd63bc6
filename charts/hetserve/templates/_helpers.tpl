{{/* What the names of all objects begin with: fixed, since one cluster has one release */}}
{{- define "hetserve.fullname" -}}
{{ .Values.fullnameOverride | default .Values.nameOverride | default "hetserve" }}
{{- end }}

{{/* Labels of every object; call with (dict "root" $ "component" "operator" "more" labels): of one key, more wins */}}
{{- define "hetserve.labels" -}}
app.kubernetes.io/name: hetserve
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- with merge (dict) (.more | default dict) .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select a component's pods: these never change */}}
{{- define "hetserve.selector" -}}
app.kubernetes.io/name: hetserve
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of a component's pods: those that select, and those that were given */}}
{{- define "hetserve.podLabels" -}}
{{- $given := merge (dict) (dig .component "podLabels" (dict) .root.Values.AsMap) .root.Values.commonLabels }}
{{- include "hetserve.selector" . }}
{{- with $given }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Image reference of a component; call with (dict "root" $ "image" .Values.operator.image), and "tag" of one not ours */}}
{{- define "hetserve.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Security of a pod, as the restricted pod-security level asks */}}
{{- define "hetserve.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Security of a container, as the restricted pod-security level asks, and a read-only root */}}
{{- define "hetserve.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* When the account and the rights of the Job that lifts gates are there */}}
{{- define "hetserve.liftGatesRights" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: "-5"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}

{{/* Where the pods of the components may run */}}
{{- define "hetserve.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Priority of a component's pods and how they spread; call with (dict "root" $ "component" "operator") */}}
{{- define "hetserve.spread" -}}
{{- $component := get .root.Values .component }}
{{- with $component.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $component.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if $component.affinity }}
  {{- toYaml $component.affinity | nindent 2 }}
  {{- else }}
  # The loss of a node should not be the loss of both; on a cluster of one node they still run.
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "hetserve.selector" . | nindent 14 }}
  {{- end }}
{{- end }}

{{/*
Refuses to turn the leader election on beside an extender that runs without one: it would go on placing until the
new pods are ready and after, and two ledgers book GPUs twice. Where helm sees no cluster it cannot tell.
A pod that has ended (evicted, say) places nothing, and stays when the Deployment has none any more: it does not count.
*/}}
{{- define "hetserve.electionFromTheStart" -}}
{{- if and .Release.IsUpgrade .Values.scheduler.leaderElection.enabled }}
{{- $namespace := .Release.Namespace }}
{{- $installed := (lookup "v1" "ConfigMap" $namespace (printf "%s-extender" (include "hetserve.fullname" .))).data | default dict }}
{{- $settings := get $installed "settings.yaml" | default "" | fromYaml }}
{{- $new := .Values.scheduler.leaderElection.leaseName }}
{{- $before := dig "scheduler" "leaseName" $new $settings }}
{{- if ne $before $new }}
{{- $deployment := lookup "apps/v1" "Deployment" $namespace (printf "%s-scheduler" (include "hetserve.fullname" .)) }}
{{- $left := int (dig "spec" "replicas" 0 $deployment) }}
{{- range (lookup "v1" "Pod" $namespace "").items }}
{{- $ended := has (dig "status" "phase" "" .) (list "Succeeded" "Failed") }}
{{- if and (not $ended) (eq "scheduler" (dig "metadata" "labels" "app.kubernetes.io/component" "" .)) }}
{{- $left = add $left 1 }}
{{- end }}
{{- end }}
{{- if $left }}
{{- $at := printf "kubectl --namespace %s" $namespace }}
{{- fail (printf "scheduler.leaderElection: the extender that runs takes part in %s and would place beside the new ones; end it first: %s scale deployment %s-scheduler --replicas=0 && %s wait --for=delete pod --selector app.kubernetes.io/component=scheduler --field-selector status.phase!=Failed,status.phase!=Succeeded" (ternary (printf "the election of Lease %s" $before) "no election" (ne $before "")) $at (include "hetserve.fullname" $) $at) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Path of a file for Prometheus: that of the Secret, or the one given; call with (dict "root" $ "what" "ca") */}}
{{- define "hetserve.prometheusFile" -}}
{{- $given := .root.Values.metrics.prometheus }}
{{- $secret := get $given (printf "%sSecret" .what) }}
{{- $file := get $given (printf "%sFile" .what) }}
{{- $field := printf "metrics.prometheus.%s" .what }}
{{- if and $secret.name $file }}
{{- fail (printf "%sSecret and %sFile say the same thing twice: set one" $field $field) }}
{{- end }}
{{- if and $secret.name (not .root.Values.components.enabled) }}
{{- fail (printf "%sSecret is mounted into the operator's pod, and components.enabled is false: set %sFile" $field $field) }}
{{- end }}
{{- if and (or $secret.name $file) (not (hasPrefix "https://" $given.url)) }}
{{- fail (printf "%sSecret and %sFile need an https metrics.prometheus.url, this one is %q" $field $field $given.url) }}
{{- end }}
{{- ternary (printf "/etc/hetserve-prometheus/%s/%s" .what $secret.key) $file (not (empty $secret.name)) }}
{{- end }}

{{/* User name of a component's account, as the API server knows it, in quotes; call with (dict "root" $ "component" "operator") */}}
{{- define "hetserve.user" -}}
{{ printf "system:serviceaccount:%s:%s-%s" .root.Release.Namespace (include "hetserve.fullname" .root) .component | quote }}
{{- end }}

{{/*
The routers as the operator knows them, JSON: name of Service and Lease, and namespaces. A namespace belongs to one.
*/}}
{{- define "hetserve.routers" -}}
{{- $seen := dict }}
{{- $found := list }}
{{- range .Values.routers }}
{{- $name := .name }}
{{- if has $name (values $seen) }}
{{- fail (printf "routers: the name %s is there twice: leave one" $name) }}
{{- end }}
{{- range .namespaces }}
{{- if hasKey $seen . }}
{{- fail (printf "routers: namespace %s is served by %s and %s: leave one" . (get $seen .) $name) }}
{{- end }}
{{- $_ := set $seen . $name }}
{{- end }}
{{- $found = append $found (dict "name" (printf "%s-router-%s" (include "hetserve.fullname" $) $name) "namespaces" .namespaces) }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* DNS names of the routers' Services, JSON */}}
{{- define "hetserve.routerHosts" -}}
{{- $found := list }}
{{- range include "hetserve.routers" . | fromJsonArray }}
{{- $found = append $found (printf "%s.%s.svc.%s" .name $.Release.Namespace $.Values.clusterDomain) }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* Binding of an admission policy that refuses; call with (dict "root" $ "policy" "hetserve-pods") */}}
{{- define "hetserve.admissionBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .policy }}
  labels:
    {{- include "hetserve.labels" (dict "root" .root "component" "admission") | nindent 4 }}
spec:
  policyName: {{ .policy }}
  validationActions: [Deny]
{{- end }}

{{/* CEL: names of the containers of a list that choose their GPUs by environment. The annotation of the binding may be shown. */}}
{{- define "hetserve.naming" -}}
{{ . }}.filter(c, c.?env.orValue([]).exists(e,
        e.name == 'NVIDIA_VISIBLE_DEVICES' &&
        (has(e.valueFrom) ?
        e.valueFrom.?fieldRef.?fieldPath.orValue('') != "metadata.annotations['hetserve.io/gpu']" :
        !(e.?value.orValue('') in ['', 'none', 'void'])))).map(c, c.name)
{{- end }}

{{/*
CEL: names of the containers of a list into which a ConfigMap or a Secret may bring the variable: CEL reads neither.
What env sets wins, and is judged by hetserve.naming.
*/}}
{{- define "hetserve.inheriting" -}}
{{ . }}.filter(c, c.?envFrom.orValue([]).size() > 0 &&
        !c.?env.orValue([]).exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')).map(c, c.name)
{{- end }}

{{/* CEL: names of the containers of a list that choose their GPUs by what NVIDIA's runtime reads from a mount */}}
{{- define "hetserve.mounting" -}}
{{ . }}.filter(c, c.?volumeMounts.orValue([]).exists(m, m.mountPath.contains('nvidia-container-devices'))).map(c, c.name)
{{- end }}

{{/* CEL: whether a write says that a pod has ended, which did not say so before */}}
{{- define "hetserve.ending" -}}
object.?status.?phase.orValue('') in ['Succeeded', 'Failed'] &&
        !(oldObject.?status.?phase.orValue('') in ['Succeeded', 'Failed'])
{{- end }}
