{{- /* Refuses other namespaces of jobs while there are gangs in those that the installed scheduler was given: it would take
them for lost, and their pods would run on beside their next attempts. Called with (dict "root" $ "name" of the
scheduler). */ -}}
{{- define "trainmaster.leavesNoGangs" -}}
{{- $jobs := .root.Values.jobs -}}
{{- $was := dict -}}
{{- range (((lookup "apps/v1" "Deployment" .root.Release.Namespace .name).spec).template.spec).containers -}}
{{- range .env -}}
{{- $_ := set $was .name (.value | default "") -}}
{{- end -}}
{{- end -}}
{{- $namespace := $was.TRAINMASTER_KUBE_NAMESPACE -}}
{{- $prefix := $was.TRAINMASTER_KUBE_NAMESPACE_PREFIX -}}
{{- $kept := ternary (eq $prefix $jobs.namespacePrefix) (and (not $jobs.namespacePrefix) (eq $namespace $jobs.namespace)) (not (empty $prefix)) -}}
{{- if and $namespace (not $kept) -}}
{{- $places := list $namespace -}}
{{- if $prefix -}}
{{- $places = list -}}
{{- range (lookup "v1" "Namespace" "" "").items -}}
{{- if hasPrefix $prefix .metadata.name -}}
{{- $places = append $places .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $place := $places -}}
{{- range (lookup "v1" "ConfigMap" $place "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (hasKey $labels "trainmaster.dev/gang") (eq (get $labels "trainmaster.dev/cluster") $.root.Values.cluster) -}}
{{- fail (printf "jobs.namespace and jobs.namespacePrefix must stay as they were while there are gangs (%s in %s): they would be lost, and their pods run on; stop all jobs first" .metadata.name $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
