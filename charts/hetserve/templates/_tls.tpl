{{/* DNS name in the extender's certificate */}}
{{- define "hetserve.serverName" -}}
{{ .Values.tls.serverName | default (printf "%s-extender.%s.svc" (include "hetserve.fullname" .) .Release.Namespace) }}
{{- end }}

{{/* Where the scheduler finds the extender */}}
{{- define "hetserve.extenderUrl" -}}
{{- $scheme := ternary "http" "https" (eq .Values.tls.mode "Disabled") }}
{{- $url := .Values.scheduler.extenderUrl }}
{{- if and $url (not (hasPrefix (printf "%s://" $scheme) $url)) }}
{{- fail (printf "scheduler.extenderUrl is %q, and with tls.mode %s the extender answers %s alone" $url .Values.tls.mode $scheme) }}
{{- end }}
{{- $url | default (printf "%s://%s-extender.%s.svc:%v" $scheme (include "hetserve.fullname" .) .Release.Namespace .Values.extender.port) }}
{{- end }}

{{/* Names of which a caller's certificate must have one, as a list in YAML */}}
{{- define "hetserve.clientNames" -}}
{{- .Values.tls.clientNames | default (list (printf "%s-scheduler" (include "hetserve.fullname" .))) | toYaml }}
{{- end }}

{{/* Name of the Secret of a component's certificate; call with (dict "root" $ "component" "extender") */}}
{{- define "hetserve.tlsSecret" -}}
{{- if eq .root.Values.tls.mode "Secret" -}}
{{ get .root.Values.tls.secret .component }}
{{- else -}}
{{ include "hetserve.fullname" .root }}-{{ .component }}-tls
{{- end }}
{{- end }}

{{/* File of the authorities that a component trusts; call with (dict "root" $ "component" "extender") */}}
{{- define "hetserve.trustFile" -}}
{{- $folder := get .root.Values.tls.folders .component }}
{{- if .root.Values.tls.trustBundle.configMap -}}
{{ $folder }}-trust/{{ .root.Values.tls.trustBundle.key }}
{{- else -}}
{{ $folder }}/ca.crt
{{- end }}
{{- end }}

{{/* Mounts of a component's certificates; call with (dict "root" $ "component" "extender") */}}
{{- define "hetserve.tlsMounts" -}}
{{- if ne .root.Values.tls.mode "Disabled" }}
- name: tls
  mountPath: {{ get .root.Values.tls.folders .component }}
  readOnly: true
{{- if .root.Values.tls.trustBundle.configMap }}
- name: trust
  mountPath: {{ get .root.Values.tls.folders .component }}-trust
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{/* Volumes of a component's certificates: renewed in place when they change; call with (dict "root" $ "component" "extender") */}}
{{- define "hetserve.tlsVolumes" -}}
{{- if ne .root.Values.tls.mode "Disabled" }}
- name: tls
  secret:
    secretName: {{ include "hetserve.tlsSecret" . }}
{{- if .root.Values.tls.trustBundle.configMap }}
- name: trust
  configMap:
    name: {{ .root.Values.tls.trustBundle.configMap }}
{{- end }}
{{- end }}
{{- end }}

{{/* The authorities that the scheduler trusts, in PEM; empty where helm does not see them */}}
{{- define "hetserve.trust" -}}
{{- $tls := .Values.tls }}
{{- if $tls.trustBundle.configMap }}
{{- dig "data" $tls.trustBundle.key "" (lookup "v1" "ConfigMap" .Release.Namespace $tls.trustBundle.configMap) }}
{{- else if eq $tls.mode "SelfSigned" }}
{{- (include "hetserve.selfSigned" . | fromJson).trust }}
{{- else }}
{{- dig "data" "ca.crt" "" (lookup "v1" "Secret" .Release.Namespace (include "hetserve.tlsSecret" (dict "root" . "component" "scheduler"))) | b64dec }}
{{- end }}
{{- end }}

{{/* Refuses what names nothing, and, where helm sees the cluster, what is not there */}}
{{- define "hetserve.tlsIsThere" -}}
{{- $tls := .Values.tls }}
{{- $namespace := .Release.Namespace }}
{{- $sees := lookup "v1" "Namespace" "" "kube-system" }}
{{- if eq $tls.mode "Secret" }}
{{- range $component := list "extender" "scheduler" }}
{{- $name := get $tls.secret $component }}
{{- if not $name }}
{{- fail (printf "tls.secret.%s is empty, and tls.mode is Secret: name the Secret of the %s's certificate" $component $component) }}
{{- end }}
{{- $found := lookup "v1" "Secret" $namespace $name }}
{{- range $key := list "tls.crt" "tls.key" "ca.crt" }}
{{- if and $sees (not (dig "data" $key "" $found)) }}
{{- fail (printf "tls.secret.%s: Secret %s of namespace %s %s: create it first (docs/security.md), or choose another tls.mode" $component $name $namespace (ternary (printf "has no %s" $key) "is not there" (not (empty $found)))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with $tls.trustBundle.configMap }}
{{- $found := lookup "v1" "ConfigMap" $namespace . }}
{{- if and $sees (not (dig "data" $tls.trustBundle.key "" $found)) }}
{{- fail (printf "tls.trustBundle: ConfigMap %s of namespace %s %s: create it first, or leave tls.trustBundle.configMap empty" . $namespace (ternary (printf "has no %s" $tls.trustBundle.key) "is not there" (not (empty $found)))) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
What the chart signs, as JSON: authority {crt, key}, trust, extender and scheduler {crt, key, renew}. What the cluster has
is kept: the authority for good, a certificate for two thirds of its time. Without the authority's Secret all is made
anew, and the authority of before stays trusted beside the new one. All templates must see the same, so it is made once.
*/}}
{{- define "hetserve.selfSigned" -}}
{{- if not (hasKey .Values "madeCertificates") }}
{{- $namespace := .Release.Namespace }}
{{- $name := include "hetserve.fullname" . }}
{{- $days := int .Values.tls.selfSigned.days }}
{{- $now := now | unixEpoch | int64 }}
{{- $kept := dig "data" (dict) (lookup "v1" "Secret" $namespace (printf "%s-ca" $name)) }}
{{- $known := and (get $kept "tls.crt") (get $kept "tls.key") }}
{{- $authority := dict }}
{{- if $known }}
{{- $authority = buildCustomCert (get $kept "tls.crt") (get $kept "tls.key") }}
{{- else }}
{{- $authority = genCAWithKey (printf "%s-ca" $name) (add $days 7300 | int) (genPrivateKey "ecdsa") }}
{{- end }}
{{- $trust := $authority.Cert }}
{{- $made := dict "authority" (dict "crt" $authority.Cert "key" $authority.Key) }}
{{- range $component := list "extender" "scheduler" }}
{{- $found := lookup "v1" "Secret" $namespace (printf "%s-%s-tls" $name $component) }}
{{- $data := dig "data" (dict) $found }}
{{- $renew := dig "metadata" "annotations" "hetserve.io/renew-after" "0" $found }}
{{- $names := ternary (list (include "hetserve.serverName" $)) (list (printf "%s-scheduler" $name)) (eq $component "extender") }}
{{- $for := dig "metadata" "annotations" "hetserve.io/names" "" $found }}
{{- if and $known (get $data "tls.crt") (get $data "tls.key") (gt (int64 $renew) $now) (eq $for (join "," $names)) }}
{{- $_ := set $made $component (dict "crt" (get $data "tls.crt" | b64dec) "key" (get $data "tls.key" | b64dec) "renew" $renew "names" $for) }}
{{- else }}
{{- $leaf := genSignedCertWithKey (printf "%s-%s" $name $component) nil $names $days $authority (genPrivateKey "ecdsa") }}
{{- $after := add $now (mul $days 57600) | toString }}
{{- $_ := set $made $component (dict "crt" $leaf.Cert "key" $leaf.Key "renew" $after "names" (join "," $names)) }}
{{- end }}
{{- $before := get $data "ca.crt" | default "" | b64dec }}
{{- if $known }}
{{- $trust = $before | default $trust }}
{{- else if and $before (eq $component "extender") }}
{{- $trust = printf "%s%s-----END CERTIFICATE-----\n" $trust (regexSplit "-----END CERTIFICATE-----\\n?" $before 2 | first) }}
{{- end }}
{{- end }}
{{- $_ := set $made "trust" $trust }}
{{- $_ := set .Values "madeCertificates" $made }}
{{- end }}
{{- toJson .Values.madeCertificates }}
{{- end }}
